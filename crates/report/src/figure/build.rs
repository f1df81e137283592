//! All figures of some studies, in the order of the paper.

use super::{Figure, agreement, grid, groups, law, scan, schemes, stability};
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
    all
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
