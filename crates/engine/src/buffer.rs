//! Float buffers that kernels may read a little past the end of.
//!
//! A kernel that works on whole vectors would need a slower path for the last,
//! partial one. Instead every buffer starts on a cache line and ends with a
//! spare one, so a full vector load from any valid position stays inside it.

use bytemuck::{Pod, Zeroable};
use std::collections::TryReserveError;

/// Floats in a cache line, and in the widest vector.
pub const LINE: usize = 16;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

/// Lines of so many floats, with the spare one.
fn lines(len: usize) -> usize {
    len.div_ceil(LINE) + 1
}

/// Zero-initialized floats, aligned to a cache line, with a spare line behind them.
#[derive(Clone)]
pub struct Buffer {
    lines: Vec<Line>,
    len: usize,
}

impl Buffer {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        Self {
            lines: vec![Line::zeroed(); lines(len)],
            len,
        }
    }

    /// `len` zeros, or an error where the system does not give the memory: for what grows with a network.
    pub fn try_zeros(len: usize) -> Result<Self, TryReserveError> {
        let mut zeros = Vec::new();
        zeros.try_reserve_exact(lines(len))?;
        zeros.resize(lines(len), Line::zeroed());
        Ok(Self { lines: zeros, len })
    }

    /// A copy of these floats.
    pub fn from_slice(values: &[f32]) -> Self {
        let mut buffer = Self::zeros(values.len());
        buffer.get_mut().copy_from_slice(values);
        buffer
    }

    /// The floats.
    pub fn get(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }

    /// The floats, to write.
    pub fn get_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }

    /// The floats and the spare line behind them.
    pub fn with_spare(&self) -> &[f32] {
        bytemuck::cast_slice(&self.lines)
    }

    /// The floats and the spare line behind them, to write.
    pub fn with_spare_mut(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(&mut self.lines)
    }

    /// Number of floats.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for Buffer {
    /// Empty and without memory: what is left behind when a buffer is taken.
    fn default() -> Self {
        Self {
            lines: Vec::new(),
            len: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_on_a_line_and_has_a_spare_one() {
        for len in [0, 1, 16, 17, 1000] {
            let buffer = Buffer::zeros(len);
            assert_eq!(buffer.get().len(), len);
            assert!(buffer.with_spare().len() >= len + LINE);
            assert_eq!(buffer.get().as_ptr() as usize % 64, 0);
            let tried = Buffer::try_zeros(len).unwrap();
            assert!(tried.with_spare() == buffer.with_spare() && tried.len() == len);
        }
    }

    #[test]
    fn memory_that_nobody_has_is_an_error() {
        assert!(Buffer::try_zeros(1 << 58).is_err());
    }
}
