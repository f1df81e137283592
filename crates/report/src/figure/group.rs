//! Which studies are drawn together: those of the same networks and scheme.

use crate::words;
use analysis::{Findings, StudyBrief};

/// Studies that differ in their search alone, so that their optima may share a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Group<'a> {
    /// E.g. `MNIST 1LP, NTK scheme`.
    pub label: String,
    /// In the order given.
    pub members: Vec<&'a Findings>,
}

impl<'a> Group<'a> {
    /// The study that stands for the group's settings.
    pub fn study(&self) -> Option<&'a StudyBrief> {
        self.members.first().map(|findings| &findings.study)
    }
}

/// The groups of some studies, in the order of their first members.
pub fn groups(findings: &[Findings]) -> Vec<Group<'_>> {
    let mut all: Vec<Group<'_>> = Vec::new();
    for one in findings {
        let together =
            |group: &&mut Group<'_>| group.study().is_some_and(|study| alike(study, &one.study));
        match all.iter_mut().find(together) {
            Some(group) => group.members.push(one),
            None => all.push(Group {
                label: words::networks(&one.study),
                members: vec![one],
            }),
        }
    }
    all
}

fn alike(one: &StudyBrief, other: &StudyBrief) -> bool {
    one.same_networks(other) && one.scheme == other.scheme
}
