//! All figures of some studies, in the order of the paper.

use super::{Figure, Mark, Ranges, agreement, grid, groups, law, scan, schemes, stability};
use crate::words;
use analysis::Findings;
use std::collections::HashSet;

/// Every figure that these studies give: by group of the same networks and scheme the
/// law, the scans, the agreement of the two searches, the grids and the stability; then
/// standard against NTK where both were measured. A study without records gives none.
pub fn figures(findings: &[Findings]) -> Vec<Figure> {
    let mut all = Vec::new();
    for group in groups(findings) {
        all.extend(law::figures(&group));
        for member in &group.members {
            all.extend(scan::figures(member));
        }
        all.extend(agreement::figures(&group));
        for member in &group.members {
            all.extend(grid::figures(member));
            all.extend(stability::figures(member));
        }
    }
    all.extend(schemes::figures(findings));
    all.retain(|figure| figure.series.iter().any(|series| !series.marks.is_empty()));
    make_unique(&mut all);
    for figure in &mut all {
        note_hidden(figure);
        note_single(figure);
    }
    all
}

/// Says how many marks lie below the range that is shown.
fn note_hidden(figure: &mut Figure) {
    let lowest = Ranges::of(figure).y.low;
    let hidden = figure.marks().filter(|(_, mark)| mark.y < lowest).count() as u64;
    if hidden > 0 {
        figure.notes.push(format!(
            "↓ at the lower edge: {} below the range of the axis.",
            words::counted(hidden, "point")
        ));
    }
}

/// Says why marks of accuracies have no bar.
fn note_single(figure: &mut Figure) {
    let lowest = Ranges::of(figure).y.low;
    let single = |mark: &Mark| mark.n == Some(1) && mark.y >= lowest && mark.y_bar.is_none();
    if figure.marks().any(|(_, mark)| single(mark)) {
        let text = "A point without a bar has a single trained run: its spread is not known.";
        figure.notes.push(text.into());
    }
}

/// Adds -2, -3, … to names that were taken.
fn make_unique(figures: &mut [Figure]) {
    let mut taken: HashSet<String> = HashSet::new();
    for figure in figures {
        let name = figure.id.clone();
        let mut number = 2;
        while !taken.insert(figure.id.clone()) {
            figure.id = format!("{name}-{number}");
            number += 1;
        }
    }
}
