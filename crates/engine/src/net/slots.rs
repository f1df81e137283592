//! Which gradients of activations share memory.
//!
//! The backward pass needs a gradient from its first writer to the operation that made the
//! plane, and never again. So a few buffers serve all planes, and what is written next lies
//! where something was just read: in cache.

use super::program::Node;
use crate::kernels::rowwise::Write;

/// Buffers for gradients, and which of them each plane takes.
#[derive(Debug)]
pub(super) struct Slots {
    /// By plane; `None` where nobody needs the gradient.
    pub of_plane: Vec<Option<usize>>,
    /// Floats of each buffer.
    pub floats: Vec<usize>,
}

impl Slots {
    /// Buffers for planes of so many floats. The last plane, whose gradient is handed out,
    /// has one of its own.
    pub fn assign(nodes: &[Node], learned: &[bool], floats: &[usize]) -> Self {
        let last = floats.len() - 1;
        let mut slots = Self {
            of_plane: vec![None; floats.len()],
            floats: vec![floats[last]],
        };
        slots.of_plane[last] = Some(0);
        let mut free = Vec::new();
        for node in nodes.iter().rev().filter(|node| learned[node.output]) {
            for &input in node.inputs.iter().filter(|input| learned[**input]) {
                if slots.of_plane[input].is_none() {
                    slots.of_plane[input] = Some(slots.take(&mut free, floats[input]));
                }
            }
            free.extend(slots.of_plane[node.output].filter(|slot| *slot != 0));
        }
        slots
    }

    /// The smallest free buffer that suffices, or the largest made larger, or a new one.
    fn take(&mut self, free: &mut Vec<usize>, needed: usize) -> usize {
        let misfit = |at: &usize| {
            let has = self.floats[free[*at]];
            (has < needed, has.abs_diff(needed))
        };
        let Some(best) = (0..free.len()).min_by_key(misfit) else {
            self.floats.push(needed);
            return self.floats.len() - 1;
        };
        let slot = free.swap_remove(best);
        self.floats[slot] = self.floats[slot].max(needed);
        slot
    }
}

/// The last reader of a plane is the first to write its gradient.
pub(super) fn order_writes(nodes: &mut [Node], planes: usize) {
    let mut written = vec![false; planes];
    for node in nodes.iter_mut().rev() {
        for (input, write) in node.inputs.iter().zip(&mut node.writes) {
            if !std::mem::replace(&mut written[*input], true) {
                *write = Write::Set;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::net::Program;
    use spec::family::{Family, Variant};
    use spec::{Scheme, Shape, Width};

    /// Two gradients that are needed at the same time never share a buffer, and there are
    /// far fewer buffers than planes.
    #[test]
    fn gradients_that_live_together_lie_apart() {
        let shape = Shape {
            height: 8,
            width: 8,
            channels: 3,
        };
        let family = Family::Wrn { blocks: 2 };
        let network = family.network(Width::new(1).unwrap(), Variant::default(), shape, 10);
        let program = Program::compile(&network.unwrap(), Scheme::Ntk, 2);
        let of_plane = &program.slots.of_plane;
        let mut live = Vec::new();
        for node in program.nodes.iter().rev() {
            let Some(done) = of_plane[node.output] else {
                continue;
            };
            for &input in node
                .inputs
                .iter()
                .filter(|input| of_plane[**input].is_some())
            {
                if !live.contains(&input) {
                    assert!(live.iter().all(|plane| of_plane[*plane] != of_plane[input]));
                    assert_ne!(of_plane[input], Some(done));
                    live.push(input);
                }
            }
            live.retain(|plane| *plane != node.output);
        }
        assert!(live.is_empty());
        assert!(program.slots.floats.len() <= 6, "{:?}", program.slots);
    }
}
