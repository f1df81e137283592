//! What of a study depends on the sizes of its data.

use super::error::Source;
use super::validate::Checked;
use super::{Search, Study};
use crate::family::Family;
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
    if let Some((key, largest)) = largest_batch_size(study).filter(|(_, b)| b.get() > examples) {
        let message = format!(
            "batch size {largest} exceeds the {examples} training examples of {}",
            study.setting.task.title()
        );
        return Err(source.about(key, message));
    }
    if study.setting.command().is_some() {
        return Ok(());
    }
    check_crop(study, source)?;
    for width in &study.widths {
        study
            .setting
            .network(*width)
            .map_err(|error| source.about("family", format!("{error}{}", hint(study))))?;
    }
    Ok(())
}

/// What to do where layers that the user has not listed do not fit.
fn hint(study: &Study) -> &'static str {
    match study.setting.family {
        Family::Cnn { .. } => {
            "; CNNs of this family need images of 12×12 pixels or more: take kind = \"mlp\", or list the layers"
        }
        _ => "",
    }
}

/// The largest batch size of a search, and the key that has it.
fn largest_batch_size(study: &Study) -> Option<(&'static str, BatchSize)> {
    const ALL: &str = "search.batch_sizes";
    const FIXED: &str = "search.batch_size";
    let all = |sizes: &[BatchSize]| Some((ALL, *sizes.last()?));
    match &study.search {
        Search::BatchSize(search) => all(&search.batch_sizes),
        Search::Paired(search, fixed) => all(&search.batch_sizes)
            .filter(|(_, largest)| *largest >= fixed.batch_size)
            .or(Some((FIXED, fixed.batch_size))),
        Search::Grid(search) => all(&search.batch_sizes),
        Search::LearningRate(search) => Some((FIXED, search.batch_size)),
        Search::Stability(search) => Some((FIXED, search.batch_size)),
    }
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
