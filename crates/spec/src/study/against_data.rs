//! What of a study depends on the sizes of its data.

use super::error::Source;
use super::validate::Checked;
use super::{Search, Study};
use crate::quantity::BatchSize;
use crate::task::Task;

/// What can only be judged with the data's sizes at hand; for the user's own
/// files that is after they were read.
pub fn check(study: &Study, source: &Source<'_>) -> Checked<()> {
    let examples = match &study.setting.task {
        Task::Declared(task) => Some(task.training_examples),
        task => task.content().map(|content| content.split.train),
    };
    let Some(examples) = examples else {
        return Ok(());
    };
    let batch_sizes: &[BatchSize] = match &study.search {
        Search::BatchSize(search) | Search::Paired(search, _) => &search.batch_sizes,
        Search::Grid(search) => &search.batch_sizes,
        Search::LearningRate(search) => std::slice::from_ref(&search.batch_size),
        Search::Stability(search) => std::slice::from_ref(&search.batch_size),
    };
    let largest = batch_sizes
        .iter()
        .chain([&study.typical_batch_size()])
        .max()
        .copied();
    if let Some(largest) = largest.filter(|largest| largest.get() > examples) {
        let message = format!(
            "batch size {largest} exceeds the {examples} training examples of {}",
            study.setting.task.title()
        );
        return Err(source.about("search.batch_sizes", message));
    }
    if study.setting.command().is_some() {
        return Ok(());
    }
    check_crop(study, source)?;
    for width in &study.widths {
        study
            .setting
            .network(*width)
            .map_err(|error| source.about("family", error))?;
    }
    Ok(())
}

/// An image must not be moved out of its frame.
fn check_crop(study: &Study, source: &Source<'_>) -> Checked<()> {
    let padding = study.setting.regularizers.augmentation.crop_padding as usize;
    let Some(content) = study.setting.task.content() else {
        return Ok(());
    };
    let side = content.shape.height.min(content.shape.width);
    if padding == 0 || padding < side {
        return Ok(());
    }
    let message = format!(
        "images of {}×{} can be moved by {} pixels at most, not {padding}",
        content.shape.height,
        content.shape.width,
        side - 1
    );
    Err(source.about("regularizers.crop_padding", message))
}
