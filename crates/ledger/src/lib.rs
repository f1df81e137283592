//! The ledger: what every run of a study gave, kept in a folder so that
//! nothing recorded is ever lost and a study goes on wherever it stopped.
//!
//! A database file corrupts on a network filesystem and a server is one more
//! thing to run. So the ledger is a folder of append-only JSON-lines files, one
//! per writing process, and its rules are few enough to hold on NFS:
//!
//! - a file has one writer, which only appends; there are no locks;
//! - a record is synced before it is reported as recorded;
//! - readers merge all files; what was torn by a crash is dropped with a warning;
//! - many records of one run id are one run.
//!
//! ```text
//! DIR/study.toml                   the study as it was run        StudyCopy
//! DIR/records/<writer>.jsonl       outcomes, one line each        Ledger, Writer
//! DIR/claims/<writer>.jsonl        who works on what, as hints    Claims, ClaimsView
//! DIR/checkpoints/<id>.safetensors where long cohorts stand       Checkpoints
//! DIR/failures/<writer>.jsonl      attempts without an outcome    Failures
//! ```
//!
//! The formats are specified in `docs/LEDGER.md`.

mod checkpoint;
mod claims;
mod claims_view;
mod disk;
mod error;
mod failures;
mod journal;
mod line_file;
mod merge;
mod moment;
mod process;
mod status;
mod study_copy;
mod tail;
mod writer;

pub use checkpoint::{Checkpoints, LEFTOVER_AGE};
pub use claims::{Claims, HEARTBEAT, LEASE};
pub use claims_view::{Claimant, ClaimsView};
pub use disk::replace;
pub use error::{Action, LedgerError};
pub use failures::Failures;
pub use journal::{Ledger, Warning};
pub use line_file::FORMAT;
pub use merge::{Conflict, Place};
pub use moment::Moment;
pub use status::{Status, WriterStatus};
pub use study_copy::StudyCopy;
pub use writer::Writer;
