//! Drawing batches, the loss, and counting what is right.

use super::{Emitter, FEW_THREADS, Part};
use crate::cuda::args::{Address, DrawArgs, LossArgs};
use crate::cuda::launch::{Kernel, Launch, Source};

impl Emitter<'_> {
    pub(super) fn draw_args(&self, data: Part) -> DrawArgs {
        let plane = self.plane(0);
        let augmentation = self.setup.regularizers.augmentation;
        DrawArgs {
            from: data.args,
            inputs: self.value(0),
            labels: 0,
            replicas: self.setup.common.replicas,
            image: plane.image() as i32,
            row: plane.row() as i32,
            pixel: plane.pixel as i32,
            corner: plane.place(0, 0, 0),
            examples: data.examples as u32,
            batch: self.batch as i32,
            crop_padding: augmentation.crop_padding as i32,
            flip: u32::from(augmentation.flip),
            first: 0,
            rounds: u32::from(self.rounds(0)),
        }
    }

    pub(super) fn draw(&mut self, data: Part, labels: Address) {
        let args = DrawArgs {
            labels,
            ..self.draw_args(data)
        };
        let grid = [self.batch, 1, self.setup.replicas];
        let kernel = Kernel::plain(Source::Batch, "draw_batch");
        (self.launches).push(Launch::new(kernel, grid, FEW_THREADS, &args));
    }

    pub(super) fn put_examples(&mut self, part: Part, first: usize) {
        let args = DrawArgs {
            first: first as i32,
            ..self.draw_args(part)
        };
        let kernel = Kernel::plain(Source::Batch, "put_examples");
        let grid = [self.batch.min(part.examples - first), 1, 1];
        (self.launches).push(Launch::new(kernel, grid, FEW_THREADS, &args));
    }

    pub(super) fn loss_args(&self) -> LossArgs {
        let last = self.values.len() - 1;
        let logits = self.value(last);
        LossArgs {
            logits: logits.values,
            gradient: self.gradients[last],
            replica: logits.replica,
            labels: 0,
            replicas: self.setup.common.replicas,
            batch: self.batch as i32,
            classes: self.setup.print.classes as i32,
            stride: self.plane(last).image() as i32,
            smoothing: self.setup.regularizers.label_smoothing as f32,
            which: 0,
            pad: 0,
        }
    }

    pub(super) fn loss(&mut self, labels: Address) {
        let args = LossArgs {
            labels,
            ..self.loss_args()
        };
        self.write_gradient(self.values.len() - 1);
        self.push(Source::Loss, "cross_entropy", 1, FEW_THREADS, &args);
    }

    pub(super) fn count(&mut self, part: Part, first: usize, which: usize) {
        let images = self.batch.min(part.examples - first);
        let args = LossArgs {
            labels: part.args.labels + 4 * first as u64,
            batch: images as i32,
            which: which as i32,
            ..self.loss_args()
        };
        self.push(Source::Loss, "count_correct", images, FEW_THREADS, &args);
    }
}
