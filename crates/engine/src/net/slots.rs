//! Which gradients of activations share memory.
//!
//! The backward pass needs a gradient from its first writer to the operation that made the
//! plane, and never again. So a few buffers serve all planes, and what is written next lies
//! where something was just read: in cache.

use super::program::Node;

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
