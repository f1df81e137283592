//! What becomes of gradients: they are kept, or each layer takes its step as soon as
//! its own is known, while its weights are still in cache.

use crate::buffer::Buffer;
use crate::kernels::Isa;
use crate::kernels::product::Store;
use crate::kernels::rowwise::{self, Step};
use std::ops::Range;

/// The learned values of a network during a backward pass, with their gradients.
pub struct Learner<'a> {
    /// θ.
    pub weights: &'a mut Buffer,
    /// ∂loss/∂θ. When descending, gradients that were used on the spot are not written.
    pub gradients: &'a mut Buffer,
    /// How to descend; without it gradients are kept and weights stay.
    pub descent: Option<Descent<'a>>,
}

/// One step of the descent and the velocity that it carries on.
pub struct Descent<'a> {
    /// v, laid out as the weights.
    pub velocity: &'a mut Buffer,
    /// How the step is taken.
    pub step: Step,
}

impl Learner<'_> {
    /// Where a product whose sums are gradients goes: the values from `start` on, and
    /// what is done with them.
    pub(super) fn target(&mut self, start: usize, scale: f32) -> (&mut [f32], Store<'_>) {
        match &mut self.descent {
            Some(Descent { velocity, step }) => {
                let store = Store::Descend {
                    scale,
                    step: *step,
                    velocity: &mut velocity.get_mut()[start..],
                };
                (&mut self.weights.get_mut()[start..], store)
            }
            None => (&mut self.gradients.get_mut()[start..], Store::Set { scale }),
        }
    }

    /// The gradients of these values are complete.
    pub(super) fn finish(&mut self, isa: Isa, values: Range<usize>) {
        if let Some(Descent { velocity, step }) = &mut self.descent {
            rowwise::update(
                isa,
                &mut self.weights.get_mut()[values.clone()],
                &mut velocity.get_mut()[values.clone()],
                &self.gradients.get()[values],
                *step,
            );
        }
    }
}
