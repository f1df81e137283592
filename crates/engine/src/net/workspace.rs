//! The memory that a program works in, and its forward and backward passes.

use super::elementwise::Gradient;
use super::learner::Learner;
use super::norm::{Call, NormPass, NormState};
use super::plane::Plane;
use super::pool::PoolPass;
use super::program::{Node, Op, Program};
use crate::buffer::Buffer;
use crate::kernels::Isa;
use std::collections::TryReserveError;
use std::mem::take;

/// Two buffers that operations use in turn.
#[derive(Clone)]
pub struct Scratch(pub(super) [Buffer; 2]);

/// What an operation remembers from its forward to its backward pass.
#[derive(Clone)]
enum State {
    None,
    Norm(NormState),
    Mask(Buffer),
}

/// The values of one network.
#[derive(Clone)]
pub struct Model {
    /// Learned values, laid out by [`super::Weights`].
    pub weights: Buffer,
    /// Running means and variances of the norms.
    pub statistics: Vec<f32>,
}

/// What a forward pass is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Statistics of the batch, dropout of this run's step.
    Training {
        /// The run's seed.
        seed: u64,
        /// The step, from 0.
        step: u64,
    },
    /// Running statistics, no dropout.
    Evaluation,
}

/// What a workspace is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Forward and backward.
    Training,
    /// Forward alone.
    Evaluation,
}

/// Activations, gradients and notes of one batch. Made once; a pass allocates nothing.
#[derive(Clone)]
pub struct Workspace {
    isa: Isa,
    values: Vec<Buffer>,
    gradients: Vec<Buffer>,
    states: Vec<State>,
    scratch: Scratch,
}

impl Workspace {
    /// Memory for a program, where the system gives it.
    pub fn new(program: &Program, isa: Isa, purpose: Use) -> Result<Self, TryReserveError> {
        let batch = program.batch();
        let plane = |plane: &Plane| Buffer::try_zeros(plane.image() * batch);
        let gradient = |floats: &usize| Buffer::try_zeros(*floats);
        let training = purpose == Use::Training;
        let state = |node: &Node| match &node.op {
            Op::Norm(norm) => Ok(State::Norm(NormState::new(norm.input.shape.channels))),
            Op::Dropout(dropout) if training => {
                Buffer::try_zeros(batch * dropout.input.shape.size()).map(State::Mask)
            }
            _ => Ok(State::None),
        };
        let [first, second] = program.scratch;
        let scratch = |len| Buffer::try_zeros(if training { len } else { 0 });
        Ok(Self {
            isa,
            values: program.planes.iter().map(plane).collect::<Result<_, _>>()?,
            gradients: match purpose {
                Use::Training => {
                    let slots = program.slots.floats.iter();
                    slots.map(gradient).collect::<Result<_, _>>()?
                }
                Use::Evaluation => Vec::new(),
            },
            states: program.nodes.iter().map(state).collect::<Result<_, _>>()?,
            scratch: Scratch([scratch(first)?, scratch(second)?]),
        })
    }

    /// Bytes that a workspace of this program takes, nearly.
    pub fn bytes(program: &Program, purpose: Use) -> usize {
        let planes = program.plane_floats();
        4 * match purpose {
            Use::Training => {
                let gradients = program.slots.floats.iter().sum::<usize>();
                planes + gradients + program.scratch.iter().sum::<usize>()
            }
            Use::Evaluation => planes,
        }
    }

    /// Where inputs are put, laid out as the program's input plane.
    pub fn input(&mut self) -> &mut [f32] {
        self.values[0].get_mut()
    }

    /// The inputs of the last pass.
    pub fn input_values(&self) -> &[f32] {
        self.values[0].get()
    }

    /// Outputs of the last forward pass, (n, classes) row by row.
    pub fn logits(&self) -> &[f32] {
        self.values[self.values.len() - 1].get()
    }

    /// The outputs and where their gradient goes.
    pub fn logits_and_gradient(&mut self) -> (&[f32], &mut [f32]) {
        let last = self.values.len() - 1;
        (self.values[last].get(), self.gradients[0].get_mut())
    }

    /// The dropout masks of the last training pass, in the order of their layers.
    pub fn masks(&self) -> impl Iterator<Item = &[f32]> {
        self.states.iter().filter_map(|state| match state {
            State::Mask(mask) => Some(mask.get()),
            _ => None,
        })
    }

    /// From inputs to logits, for the first `n` examples.
    pub fn forward(&mut self, program: &Program, model: &mut Model, mode: Mode, n: usize) {
        for at in 0..program.nodes.len() {
            self.node_forward(program, at, model, mode, n);
        }
    }

    /// Forward of one operation.
    fn node_forward(
        &mut self,
        program: &Program,
        at: usize,
        model: &mut Model,
        mode: Mode,
        n: usize,
    ) {
        let call = Call { isa: self.isa, n };
        let (node, state) = (&program.nodes[at], &mut self.states[at]);
        let mut output = take(&mut self.values[node.output]);
        let y = output.get_mut();
        let x = self.values[node.inputs[0]].with_spare();
        let weights = model.weights.with_spare();
        match (&node.op, state) {
            (Op::Affine(op), _) => op.forward(self.isa, output.with_spare_mut(), x, weights, n),
            (Op::Norm(op), State::Norm(state)) => match mode {
                Mode::Training { .. } => {
                    let running = &mut model.statistics;
                    op.forward_training(call, y, x, weights, running, state);
                }
                Mode::Evaluation => {
                    let running = &model.statistics;
                    op.forward_evaluation(call, y, x, weights, running, state);
                }
            },
            (Op::Relu(op), _) => op.forward(self.isa, y, x, n),
            (Op::Pool(op), _) => op.forward(self.isa, output.with_spare_mut(), x, n),
            (Op::Dropout(op), state) => match (mode, state) {
                (Mode::Training { seed, step }, State::Mask(mask)) => {
                    op.draw(mask.get_mut(), seed, step, n);
                    op.forward(self.isa, y, x, mask.get(), n);
                }
                _ => op.forward_evaluation(y, x, n),
            },
            (Op::Add(op), _) => {
                let other = self.values[node.inputs[1]].with_spare();
                op.forward(self.isa, y, x, other, n);
            }
            (Op::Norm(_), _) => unreachable!("made together with its state"),
        }
        self.values[node.output] = output;
    }

    /// From the gradient of the logits to those of all learned values. Each layer's data
    /// gradient is taken before its weights move.
    pub fn backward(&mut self, program: &Program, learner: &mut Learner<'_>, n: usize) {
        for (at, node) in program.nodes.iter().enumerate().rev() {
            let Some(output) = program.slots.of_plane[node.output] else {
                continue;
            };
            let mut dy = take(&mut self.gradients[output]);
            for which in 0..node.inputs.len() {
                let pass = Pass {
                    program,
                    at,
                    which,
                    n,
                };
                let slot = program.slots.of_plane[node.inputs[which]];
                let mut dx = slot.map(|slot| take(&mut self.gradients[slot]));
                self.node_backward(pass, dx.as_mut(), &mut dy, learner);
                if let (Some(slot), Some(dx)) = (slot, dx) {
                    self.gradients[slot] = dx;
                }
            }
            self.gradients[output] = dy;
        }
    }

    /// Backward of one operation towards one of its inputs.
    fn node_backward(
        &mut self,
        pass: Pass<'_>,
        dx: Option<&mut Buffer>,
        dy: &mut Buffer,
        learner: &mut Learner<'_>,
    ) {
        let Pass {
            program,
            at,
            which,
            n,
        } = pass;
        let node = &program.nodes[at];
        let isa = self.isa;
        let x = self.values[node.inputs[which]].with_spare();
        let y = self.values[node.output].with_spare();
        let call = Call { isa, n };
        let to = dx.map(|dx| Gradient {
            dx: dx.with_spare_mut(),
            write: node.writes[which],
        });
        match (&node.op, &mut self.states[at], to) {
            (Op::Affine(op), _, to) => {
                if !node.activation_taken {
                    op.activation_backward(isa, dy.get_mut(), y, n);
                }
                let dy = dy.with_spare();
                if let Some(to) = to {
                    let weights = learner.weights.with_spare();
                    let activation = node.takes_activation.then_some(x);
                    op.data_backward(call, to, dy, weights, &mut self.scratch, activation);
                }
                op.weight_backward(isa, learner, dy, x, &mut self.scratch, n);
            }
            (Op::Norm(op), State::Norm(state), to) => {
                let pass = NormPass {
                    to,
                    dy: dy.get_mut(),
                    y: (op.relu && !node.activation_taken).then_some(y),
                    x,
                };
                op.backward(call, pass, learner, state);
            }
            (Op::Relu(op), _, Some(to)) => op.backward(isa, to, dy.get(), y, n),
            (Op::Pool(op), _, Some(to)) => {
                let pass = PoolPass {
                    to,
                    dy: dy.with_spare(),
                    y,
                    x,
                    after_relu: node.takes_activation,
                };
                op.backward(isa, pass, n);
            }
            (Op::Dropout(op), State::Mask(mask), Some(to)) => {
                op.backward(isa, to, dy.get(), mask.get(), n);
            }
            (Op::Add(op), _, Some(to)) => op.backward(isa, which, to, dy.get(), n),
            _ => {}
        }
    }
}

/// Which backward step is taken.
#[derive(Clone, Copy)]
struct Pass<'a> {
    program: &'a Program,
    at: usize,
    which: usize,
    n: usize,
}
