//! What the Rust contestants share: the layers they are asked to build, the
//! values they start from, and the conversation with peers.py.

pub mod protocol;
pub mod start;
