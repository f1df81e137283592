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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Mode, Model, Program, Use, Workspace};
    use spec::family::{Family, Pool, Variant};
    use spec::{Scheme, Shape, UpdateRule, WeightScale, Width};

    const BATCH: usize = 18;

    /// The weights and velocity after two steps, taken on the spot or at the end.
    fn after_two_steps(isa: Isa, program: &Program, on_the_spot: bool) -> [Buffer; 2] {
        let scale = WeightScale::new(2.0).unwrap();
        let weights = program.weights().initial(Scheme::Ntk, scale, 3).unwrap();
        let mut velocity = Buffer::zeros(weights.len());
        let mut gradients = Buffer::zeros(weights.len());
        let mut model = Model {
            weights,
            statistics: program.initial_statistics(),
        };
        let mut workspace = Workspace::new(program, isa, Use::Training).unwrap();
        for (i, x) in workspace.input().iter_mut().enumerate() {
            *x = (i % 11) as f32 * 0.1 - 0.5;
        }
        let step = Step {
            rule: UpdateRule::Nesterov,
            learning_rate: 0.01,
            momentum: 0.9,
        };
        for at in 0..2 {
            let mode = Mode::Training { seed: 0, step: at };
            workspace.forward(program, &mut model, mode, BATCH);
            let (logits, gradient) = workspace.logits_and_gradient();
            gradient.copy_from_slice(logits);
            let mut learner = Learner {
                weights: &mut model.weights,
                gradients: &mut gradients,
                descent: on_the_spot.then_some(Descent {
                    velocity: &mut velocity,
                    step,
                }),
            };
            workspace.backward(program, &mut learner, BATCH);
            if !on_the_spot {
                let (w, v) = (model.weights.get_mut(), velocity.get_mut());
                rowwise::update(isa, w, v, gradients.get(), step);
            }
        }
        [model.weights, velocity]
    }

    #[test]
    fn a_step_on_the_spot_is_the_same_step() {
        let shape = Shape {
            height: 28,
            width: 28,
            channels: 1,
        };
        for batch_norm in [false, true] {
            let variant = Variant {
                batch_norm,
                dropout: 0.0,
            };
            let family = Family::Cnn { pool: Pool::Max };
            let network = family.network(Width::new(1).unwrap(), variant, shape, 10);
            let program = Program::compile(&network.unwrap(), Scheme::Ntk, BATCH);
            for isa in Isa::available() {
                let [w, v] = after_two_steps(isa, &program, true);
                let [expected_w, expected_v] = after_two_steps(isa, &program, false);
                assert!(
                    w.get() == expected_w.get() && v.get() == expected_v.get(),
                    "{isa}"
                );
                assert!(w.get().iter().all(|x| x.is_finite()));
            }
        }
    }
}
