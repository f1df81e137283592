//! Every instruction set against the definition.

use super::*;
use crate::buffer::Buffer;
use crate::kernels::Isa;
use proptest::prelude::*;

fn filled(len: usize, salt: u32) -> Buffer {
    let mut buffer = Buffer::zeros(len);
    for (i, x) in buffer.get_mut().iter_mut().enumerate() {
        let hash = (i as u32 ^ salt.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
        *x = (hash >> 8) as f32 / (1 << 24) as f32 - 0.5;
    }
    buffer
}

/// A product over odd sizes.
#[derive(Debug, Clone)]
struct Case {
    m: usize,
    n: usize,
    len: usize,
    segments: usize,
    a_step: usize,
    /// Rows of C are so many floats longer than they need be, or overlap.
    c_step: usize,
    b_by_panels: bool,
    c_by_panels: bool,
    store: usize,
    salt: u32,
}

fn cases() -> impl Strategy<Value = Case> {
    let sizes = (1usize..30, 1usize..60, 0usize..9, 1usize..4);
    let steps = (1usize..4, 1usize..50, any::<bool>(), any::<bool>());
    (sizes, steps, 0..6usize, any::<u32>()).prop_map(
        |((m, n, len, segments), (a_step, c_step, b_by_panels, c_by_panels), store, salt)| Case {
            m,
            n,
            len,
            segments,
            a_step,
            c_step,
            b_by_panels,
            c_by_panels,
            store,
            salt,
        },
    )
}

/// C and the velocity after a product.
fn outcome(case: &Case, run: impl Fn(Product<'_>)) -> [Buffer; 2] {
    let &Case {
        m,
        n,
        len,
        segments,
        a_step,
        c_step,
        salt,
        ..
    } = case;
    let a = filled(m * 7 + segments * 5 + len * a_step + 1, salt);
    let (b_step, b_panel) = match case.b_by_panels {
        true => (PANEL, (segments * len.max(1) + 1) * PANEL),
        false => (n + 3, PANEL),
    };
    let b_len = segments * len.max(1) * b_step + n.div_ceil(PANEL) * b_panel;
    let b = filled(b_len, salt ^ 1);
    let bias = filled(n, salt ^ 2);
    let starts: Vec<Segment> = (0..segments)
        .map(|s| Segment {
            a: 5 * s,
            b: s * len * b_step,
            len: len - s.min(len),
        })
        .collect();
    let (c_rows, c_panel) = match case.c_by_panels {
        true => (Rows::even(m, PANEL), (m + 1) * PANEL),
        // Overlap is allowed when adding only.
        false if case.store == 1 => (Rows::even(m, c_step), PANEL),
        false => (Rows::even(m, n + c_step), PANEL),
    };
    let c_len = c_rows.farthest(m) + (n.div_ceil(PANEL) - 1) * c_panel + (n - 1) % PANEL + 1;
    let mut c = filled(c_len, salt ^ 3);
    let mut velocity = filled(c_len, salt ^ 4);
    let scale = 0.5;
    let step = |rule| Step {
        rule,
        learning_rate: 0.1,
        momentum: 0.9,
    };
    let store = match case.store {
        0 => Store::Set { scale },
        1 => Store::Add { scale },
        2 | 3 => Store::Affine {
            scale,
            bias: bias.with_spare(),
            relu: case.store == 3,
        },
        s => Store::Descend {
            scale,
            step: step([UpdateRule::Nesterov, UpdateRule::HeavyBall][s - 4]),
            velocity: velocity.get_mut(),
        },
    };
    run(Product {
        a: a.with_spare(),
        a_rows: &Rows::even(m, 7),
        rows_ahead: case.b_by_panels,
        b: b.with_spare(),
        b_panel,
        sum: Sum {
            segments: &starts,
            a_step,
            b_step,
        },
        c: c.get_mut(),
        c_rows: &c_rows,
        c_panel,
        m,
        n,
        store,
    });
    [c, velocity]
}

proptest! {
    /// Every instruction set against the definition, over odd sizes, with
    /// segments, strides, panels, overlapping rows of C and every store.
    #[test]
    fn matches_the_reference(case in cases()) {
        let expected = outcome(&case, |product| product.reference());
        for isa in Isa::available() {
            let got = outcome(&case, |product| product.run(isa));
            for (got, expected) in got.iter().zip(&expected) {
                for (x, y) in got.get().iter().zip(expected.get()) {
                    prop_assert!((x - y).abs() < 1e-4, "{isa}: {x} against {y}");
                }
            }
        }
    }
}

/// A product of 1 by `n` with two terms, of slices that are long enough for panels that follow each other.
fn run_odd(n: usize, change: impl FnOnce(&mut Product<'_>)) {
    let (a, b) = (filled(2, 1), filled(64, 2));
    let mut c = Buffer::zeros(n);
    let mut product = Product {
        a: a.with_spare(),
        a_rows: &Rows::even(1, 1),
        rows_ahead: false,
        b: b.with_spare(),
        b_panel: PANEL,
        sum: Sum {
            segments: &[Segment { a: 0, b: 0, len: 2 }],
            a_step: 1,
            b_step: 32,
        },
        c: c.get_mut(),
        c_rows: &Rows::even(1, 1),
        c_panel: PANEL,
        m: 1,
        n,
        store: Store::Set { scale: 1.0 },
    };
    change(&mut product);
    product.run(Isa::detect());
}

#[test]
fn what_stays_in_its_slices_is_computed() {
    run_odd(17, |_| ());
}

#[test]
#[should_panic(expected = "panels of C overlap")]
fn panels_of_c_that_overlap_are_refused() {
    // The last column would lie at 0, and the sixteenth behind the end.
    run_odd(17, |product| {
        product.c_panel = 0;
        product.c = &mut std::mem::take(&mut product.c)[..1];
    });
}

#[test]
#[should_panic(expected = "A is short")]
fn steps_beyond_all_numbers_are_refused() {
    // Two steps of half of all numbers would end where they began.
    run_odd(17, |product| {
        product.sum.segments = &[Segment { a: 0, b: 0, len: 3 }];
        product.sum.a_step = 1 << (usize::BITS - 1);
    });
}

#[test]
#[should_panic(expected = "B is short")]
fn panels_beyond_all_numbers_are_refused() {
    run_odd(33, |product| product.b_panel = 1 << (usize::BITS - 1));
}
