//! Transposes between rows and panels, by blocks of 8 × 8.
//!
//! A matrix stored by panels has its columns in groups of [`PANEL`]: all rows of the
//! first group, 16 floats each, then all rows of the next. Rows are padded with zeros
//! to whole panels where a later product sums over them.

use super::per_isa;
use super::product::PANEL;
use super::rowwise::Write;
use super::simd::{BLOCK, Simd};

/// The shape of a matrix of ordinary rows.
#[derive(Debug, Clone, Copy)]
pub struct Matrix {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
    /// Floats from one row to the next.
    pub step: usize,
}

per_isa!(
    /// The transpose of x, whose rows become the columns of panels. There are `padded`
    /// rows, of zeros where x has no column.
    pub fn rows_to_panels(panels: &mut [f32], x: &[f32], matrix: Matrix, padded: usize)
        = rows_to_panels_kernel
);
per_isa!(
    /// x by panels `panel` floats apart, its rows as they are.
    pub fn rows_by_panels(panels: &mut [f32], panel: usize, x: &[f32], matrix: Matrix)
        = plain rows_by_panels_kernel
);
per_isa!(
    /// y ← the transpose of panels, whose columns become the rows of y; or y + that.
    pub fn panels_to_rows(y: &mut [f32], panels: &[f32], matrix: Matrix, write: Write)
        = panels_to_rows_kernel
);
per_isa!(
    /// The transpose of rows that lie in panels `from_panel` floats apart, into panels
    /// padded with zeros: rows to a multiple of 16, and the columns of the last panel.
    pub fn panels_to_panels(to: &mut [f32], from: &[f32], from_panel: usize, matrix: Matrix)
        = panels_to_panels_kernel
);

#[inline(always)]
fn rows_to_panels_kernel<S: Simd>(panels: &mut [f32], x: &[f32], matrix: Matrix, padded: usize) {
    let source = |r: usize, c: usize| r * matrix.step + c;
    to_panels::<S>(panels, x, matrix, padded, source);
}

#[inline(always)]
fn rows_by_panels_kernel(panels: &mut [f32], panel: usize, x: &[f32], matrix: Matrix) {
    let Matrix {
        rows,
        columns,
        step,
    } = matrix;
    for (at, to) in panels.chunks_mut(panel).enumerate() {
        let first = at * PANEL;
        if first + PANEL <= columns {
            for (r, to) in to.chunks_exact_mut(PANEL).enumerate().take(rows) {
                to.copy_from_slice(&x[r * step + first..][..PANEL]);
            }
        } else if first < columns {
            for (r, to) in to.chunks_exact_mut(PANEL).enumerate().take(rows) {
                let row = &x[r * step + first..r * step + columns];
                to[..row.len()].copy_from_slice(row);
            }
        }
    }
}

#[inline(always)]
fn panels_to_panels_kernel<S: Simd>(
    to: &mut [f32],
    from: &[f32],
    from_panel: usize,
    matrix: Matrix,
) {
    let padded = matrix.columns.next_multiple_of(PANEL);
    let source = |r: usize, c: usize| c / PANEL * from_panel + r * matrix.step + c % PANEL;
    let last = matrix.rows % PANEL;
    if last > 0 {
        let start = matrix.rows / PANEL * padded * PANEL;
        for row in to[start..start + padded * PANEL].chunks_exact_mut(PANEL) {
            row[last..].fill(0.0);
        }
    }
    to_panels::<S>(to, from, matrix, padded, source);
}

/// panels\[r / 16\]\[c\]\[r % 16\] = x\[source(r, c)\]; rows from `columns` to `padded` are zeros.
#[inline(always)]
fn to_panels<S: Simd>(
    panels: &mut [f32],
    x: &[f32],
    matrix: Matrix,
    padded: usize,
    source: impl Fn(usize, usize) -> usize,
) {
    let Matrix {
        rows,
        columns,
        step,
    } = matrix;
    let target = |r: usize, c: usize| (r / PANEL * padded + c) * PANEL + r % PANEL;
    for row in (0..rows).step_by(BLOCK) {
        for column in (0..columns).step_by(BLOCK) {
            let (from, to) = (source(row, column), target(row, column));
            if rows - row >= BLOCK && columns - column >= BLOCK {
                let x = &x[from..=from + (BLOCK - 1) * step + BLOCK - 1];
                let y = &mut panels[to..=to + (BLOCK - 1) * PANEL + BLOCK - 1];
                // SAFETY: both slices hold 8 rows of 8 at their steps.
                unsafe { S::transpose(y.as_mut_ptr(), PANEL, x.as_ptr(), step) };
                continue;
            }
            for c in column..(column + BLOCK).min(columns) {
                for r in row..(row + BLOCK).min(rows) {
                    panels[target(r, c)] = x[source(r, c)];
                }
            }
        }
    }
    for panel in 0..rows.div_ceil(PANEL) {
        panels[(panel * padded + columns) * PANEL..(panel + 1) * padded * PANEL].fill(0.0);
    }
}

#[inline(always)]
fn panels_to_rows_kernel<S: Simd>(y: &mut [f32], panels: &[f32], matrix: Matrix, write: Write) {
    let Matrix {
        rows,
        columns,
        step,
    } = matrix;
    let source = |r: usize, c: usize| (r / PANEL * columns + c) * PANEL + r % PANEL;
    for row in (0..rows).step_by(BLOCK) {
        for column in (0..columns).step_by(BLOCK) {
            if rows - row >= BLOCK && columns - column >= BLOCK {
                let from = source(row, column);
                let x = &panels[from..=from + (BLOCK - 1) * PANEL + BLOCK - 1];
                let mut block = [0.0; BLOCK * BLOCK];
                // SAFETY: the slice holds 8 rows of 8 at their step, the block 64 floats.
                unsafe { S::transpose(block.as_mut_ptr(), BLOCK, x.as_ptr(), PANEL) };
                for (r, block) in block.chunks_exact(BLOCK).enumerate() {
                    let y = &mut y[(row + r) * step + column..][..BLOCK];
                    match write {
                        Write::Set => y.copy_from_slice(block),
                        Write::Add => y.iter_mut().zip(block).for_each(|(y, x)| *y += x),
                    }
                }
                continue;
            }
            for r in row..(row + BLOCK).min(rows) {
                for c in column..(column + BLOCK).min(columns) {
                    let (y, x) = (&mut y[r * step + c], panels[source(r, c)]);
                    *y = match write {
                        Write::Set => x,
                        Write::Add => *y + x,
                    };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Isa;

    /// Every pair of odd and even sizes, there and back.
    #[test]
    fn transposes_match_their_definition() {
        for isa in Isa::available() {
            for rows in [1, 3, 8, 16, 19, 40] {
                for columns in [1, 5, 8, 16, 17, 33] {
                    check(isa, rows, columns);
                }
            }
        }
    }

    fn check(isa: Isa, rows: usize, columns: usize) {
        let step = columns + 3;
        let matrix = Matrix {
            rows,
            columns,
            step,
        };
        let x: Vec<f32> = (0..rows * step).map(|i| i as f32).collect();
        let padded = columns.next_multiple_of(PANEL);
        let mut panels = vec![-1.0; rows.next_multiple_of(PANEL) * padded];
        rows_to_panels(isa, &mut panels, &x, matrix, padded);
        for r in 0..rows {
            for c in 0..padded {
                let expected = if c < columns { x[r * step + c] } else { 0.0 };
                assert_eq!(
                    panels[(r / PANEL * padded + c) * PANEL + r % PANEL],
                    expected
                );
            }
        }
        let mut by_panels = vec![-1.0; rows * padded];
        rows_by_panels(isa, &mut by_panels, matrix.rows * PANEL, &x, matrix);
        for r in 0..rows {
            for c in 0..columns {
                let at = (c / PANEL * rows + r) * PANEL + c % PANEL;
                assert_eq!(by_panels[at], x[r * step + c]);
            }
        }
        // The same matrix out of panels.
        let from_panel = rows * PANEL + 5;
        let mut source = vec![0.0; columns.div_ceil(PANEL) * from_panel];
        for r in 0..rows {
            for c in 0..columns {
                source[c / PANEL * from_panel + r * PANEL + c % PANEL] = x[r * step + c];
            }
        }
        let mut same = vec![-1.0; panels.len()];
        let in_panels = Matrix {
            step: PANEL,
            ..matrix
        };
        panels_to_panels(isa, &mut same, &source, from_panel, in_panels);
        for panel in 0..rows.div_ceil(PANEL) {
            for c in 0..padded {
                let at = (panel * padded + c) * PANEL;
                let used = PANEL.min(rows - panel * PANEL);
                assert_eq!(same[at..at + used], panels[at..at + used]);
                assert!(same[at + used..at + PANEL].iter().all(|x| *x == 0.0));
            }
        }
        // And back, set or added to what is there.
        let mut narrow = vec![0.0; rows.next_multiple_of(PANEL) * columns];
        for r in 0..rows {
            for c in 0..columns {
                narrow[(r / PANEL * columns + c) * PANEL + r % PANEL] = x[r * step + c];
            }
        }
        for (write, before) in [(Write::Set, 0.0), (Write::Add, 1.0)] {
            let mut y = vec![1.0; rows * step];
            panels_to_rows(isa, &mut y, &narrow, matrix, write);
            for r in 0..rows {
                for c in 0..columns {
                    assert_eq!(y[r * step + c], before + x[r * step + c]);
                }
            }
        }
    }
}
