//! Shares of a study's runs for machines that do not talk to each other.
//!
//! A partition is a pure function of runs, costs and the number of shards: every
//! machine that asks for shard 3 of 8 gets the same one. Runs of a cohort stay
//! together, since a GPU trains them at the price of a few; only a cohort that
//! costs more than one shard's fair share is cut. The parts are then dealt out, the
//! dearest first, each to the shard that has the least so far (R. Graham, *Bounds on
//! Multiprocessing Timing Anomalies*, 1969).

use crate::folder::Folder;
use crate::runner;
use spec::{BatchSize, Run, Width};
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::str::FromStr;

/// One of several shares, counted from 1: `3/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    /// Its place in a list of all.
    pub fn index(self) -> usize {
        self.number - 1
    }

    /// How many there are.
    pub fn of(self) -> usize {
        self.of
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            let (number, of) = (number.parse().ok()?, of.parse().ok()?);
            (1 <= number && number <= of).then_some(Self { number, of })
        });
        numbers.ok_or_else(|| format!("`{text}` is not a shard; give I/N, from 1/N to N/N"))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// The runs that a study asks for before anything is known, in `shards` shares. It
/// depends on the study alone: not on records, and not on the machine.
pub fn of_study(folder: &Folder, shards: usize) -> Vec<Vec<Run>> {
    let study = &folder.study;
    let runs = analysis::wanted(study, &spec::points(study), []);
    of_runs(runs, shards, runner::products)
}

/// Runs of one study in `shards` shares, each in the order given; some may be empty.
pub fn of_runs(runs: Vec<Run>, shards: usize, cost: impl Fn(&Run) -> f64) -> Vec<Vec<Run>> {
    let items: Vec<((Width, BatchSize, u64), f64)> = runs
        .iter()
        .map(|run| ((run.width, run.batch_size, run.steps), cost(run)))
        .collect();
    let mut runs: Vec<Option<Run>> = runs.into_iter().map(Some).collect();
    let mut take = |share: Vec<usize>| share.into_iter().filter_map(|at| runs[at].take()).collect();
    partition(&items, shards)
        .into_iter()
        .map(&mut take)
        .collect()
}

/// The places of items, each with its cohort and cost, in `shards` shares.
fn partition<K: Eq + Hash>(items: &[(K, f64)], shards: usize) -> Vec<Vec<usize>> {
    // Work that costs nothing still has to be dealt out evenly.
    let cost = |at: &usize| items[*at].1.max(1e-9);
    let total: f64 = (0..items.len()).map(|at| cost(&at)).sum();
    let share = total / shards as f64;
    let mut parts: Vec<(f64, Vec<usize>)> = cohorts(items)
        .into_iter()
        .flat_map(|cohort| cut(cohort, &cost, share))
        .collect();
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut dealt: Vec<(f64, Vec<usize>)> = vec![(0.0, Vec::new()); shards];
    for (cost, part) in parts {
        let poorest = dealt.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((sum, share)) = poorest {
            *sum += cost;
            share.extend(part);
        }
    }
    let in_order = |(_, mut share): (f64, Vec<usize>)| {
        share.sort_unstable();
        share
    };
    dealt.into_iter().map(in_order).collect()
}

/// The places of each cohort, by first appearance.
fn cohorts<K: Eq + Hash>(items: &[(K, f64)]) -> Vec<Vec<usize>> {
    let mut numbers: HashMap<&K, usize> = HashMap::new();
    let mut cohorts: Vec<Vec<usize>> = Vec::new();
    for (at, (key, _)) in items.iter().enumerate() {
        let number = *numbers.entry(key).or_insert(cohorts.len());
        if number == cohorts.len() {
            cohorts.push(Vec::new());
        }
        cohorts[number].push(at);
    }
    cohorts
}

/// A cohort whole, or in as few equal parts as keep each within a share.
fn cut(cohort: Vec<usize>, cost: &impl Fn(&usize) -> f64, share: f64) -> Vec<(f64, Vec<usize>)> {
    let whole: f64 = cohort.iter().map(cost).sum();
    // Rounding must not cut a cohort that is exactly one share.
    let parts = ((whole / share - 1e-9).ceil() as usize).clamp(1, cohort.len());
    let size = cohort.len().div_ceil(parts);
    let priced = |part: &[usize]| (part.iter().map(cost).sum(), part.to_vec());
    cohort.chunks(size).map(priced).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cohorts_stay_together_and_the_dearest_is_dealt_first() {
        // Cohorts a: 4, b: 3, c: 2, d: 1; two shares of 5: {a, d} and {b, c}.
        let items = [
            ('a', 2.0),
            ('b', 1.5),
            ('a', 2.0),
            ('b', 1.5),
            ('c', 2.0),
            ('d', 1.0),
        ];
        assert_eq!(partition(&items, 2), [vec![0, 2, 5], vec![1, 3, 4]]);
        assert_eq!(partition(&items, 1), [vec![0, 1, 2, 3, 4, 5]]);
    }

    #[test]
    fn a_cohort_beyond_a_share_is_cut() {
        // a costs 6 of 8 and a share is 4: two parts of 3. Of two equal sums the first gets b.
        let items = [
            ('a', 1.0),
            ('a', 1.0),
            ('a', 1.0),
            ('a', 1.0),
            ('a', 1.0),
            ('a', 1.0),
            ('b', 2.0),
        ];
        assert_eq!(partition(&items, 2), [vec![0, 1, 2, 6], vec![3, 4, 5]]);
    }

    #[test]
    fn more_shares_than_runs_leave_some_empty() {
        let items = [('a', 1.0), ('b', 1.0)];
        let sizes: Vec<usize> = partition(&items, 4).iter().map(Vec::len).collect();
        assert_eq!(sizes, [1, 1, 0, 0]);
        assert_eq!(partition(&[('a', 0.0), ('a', 0.0)], 2), [vec![0], vec![1]]);
        assert_eq!(partition::<char>(&[], 2), [vec![], Vec::<usize>::new()]);
    }

    #[test]
    fn shards_are_named_from_1() {
        let shard: Shard = "3/8".parse().unwrap();
        assert_eq!(
            (shard.index(), shard.of(), shard.to_string()),
            (2, 8, "3/8".into())
        );
        for wrong in ["0/8", "9/8", "3", "a/b", "3/", "1/0", "-1/2"] {
            let error = wrong.parse::<Shard>().unwrap_err();
            assert!(error.contains(wrong) && error.contains("I/N"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_partition_is_whole_even_and_keeps_cohorts(
            items in prop::collection::vec((0_u8..12, 0.1_f64..50.0), 1..120),
            shards in 1_usize..20,
        ) {
            let shares = partition(&items, shards);
            prop_assert_eq!(&shares, &partition(&items, shards));
            prop_assert_eq!(shares.len(), shards);
            let mut all: Vec<usize> = shares.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..items.len()).collect::<Vec<_>>());
            let cost = |places: &[usize]| places.iter().map(|at| items[*at].1).sum::<f64>();
            let fair = cost(&(0..items.len()).collect::<Vec<_>>()) / shards as f64;
            for cohort in cohorts(&items) {
                let holders = shares.iter().filter(|share| share.contains(&cohort[0]));
                let together = holders.into_iter().all(|share| {
                    cohort.iter().all(|at| share.contains(at))
                });
                prop_assert!(together || cost(&cohort) > fair * 0.999);
            }
        }

        /// In a cohort all cost the same. Graham: the fullest share has at most a fair share
        /// and one part, and a part is a fair share or a run, whichever is more.
        #[test]
        fn no_share_is_much_above_the_fair_one(
            cohorts in prop::collection::vec((1_usize..30, 0.1_f64..50.0), 1..20),
            shards in 1_usize..20,
        ) {
            let items: Vec<(usize, f64)> = cohorts
                .iter()
                .enumerate()
                .flat_map(|(key, (size, cost))| vec![(key, *cost); *size])
                .collect();
            let total: f64 = items.iter().map(|(_, cost)| cost).sum();
            let longest = items.iter().map(|(_, cost)| *cost).fold(0.0, f64::max);
            let fair = total / shards as f64;
            for share in partition(&items, shards) {
                let sum: f64 = share.iter().map(|at| items[*at].1).sum();
                // Equal parts of n runs in k parts have up to one run more than n / k.
                prop_assert!(sum <= 2.0 * fair + longest + 1e-6, "{sum} of {fair}");
            }
        }
    }
}
