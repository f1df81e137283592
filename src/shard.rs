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

/// More than any cluster has tasks, and few enough to list.
const MOST: usize = 1_000_000;

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
        match numbers {
            Some(shard) if shard.of <= MOST => Ok(shard),
            Some(_) => Err(format!(
                "`{text}` is one of more than {MOST} shards; give I/N with a smaller N"
            )),
            None => Err(format!(
                "`{text}` is not a shard; give I/N, from 1/N to N/N"
            )),
        }
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
    of_runs(runs, Count::Exactly(shards), 1, runner::products)
}

/// How many shares there are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Count {
    /// So many.
    Exactly(usize),
    /// As many as make each cost about so much, but no more than this.
    Costing {
        /// Of one share.
        share: f64,
        /// How many at most.
        most: usize,
    },
}

/// Runs of one study in shares, each in the order given; some may be empty.
///
/// `together` runs cost no more time than one, for so many are trained at once: of a
/// cohort that is cut, that many stay together.
pub fn of_runs(
    runs: Vec<Run>,
    count: Count,
    together: usize,
    cost: impl Fn(&Run) -> f64,
) -> Vec<Vec<Run>> {
    let items: Vec<((Width, BatchSize, u64), f64)> = runs
        .iter()
        .map(|run| ((run.width, run.batch_size, run.steps), cost(run)))
        .collect();
    let mut runs: Vec<Option<Run>> = runs.into_iter().map(Some).collect();
    let mut take = |share: Vec<usize>| share.into_iter().filter_map(|at| runs[at].take()).collect();
    partition(&items, count, together)
        .into_iter()
        .map(&mut take)
        .collect()
}

/// Places of items that stay together, with what they cost.
#[derive(Debug, Clone, Default)]
struct Part {
    cost: f64,
    places: Vec<usize>,
}

/// The places of items, each with its cohort and cost, in shares.
fn partition<K: Eq + Hash>(items: &[(K, f64)], count: Count, together: usize) -> Vec<Vec<usize>> {
    // Work that costs nothing still has to be dealt out evenly.
    let cost = |at: &usize| items[*at].1.max(1e-9);
    let share = match count {
        Count::Exactly(shards) => (0..items.len()).map(|at| cost(&at)).sum::<f64>() / shards as f64,
        Count::Costing { share, .. } => share.max(1e-9),
    };
    let parts: Vec<Part> = cohorts(items)
        .into_iter()
        .flat_map(|cohort| cut(&cohort, &cost, share, together))
        .collect();
    let shards = match count {
        Count::Exactly(shards) => shards,
        Count::Costing { most, .. } => shares_needed(&parts, share).clamp(1, most),
    };
    deal(parts, shards)
}

/// A part beyond a share needs one for itself; the others fill theirs.
fn shares_needed(parts: &[Part], share: f64) -> usize {
    let (large, small): (Vec<&Part>, Vec<&Part>) =
        parts.iter().partition(|part| part.cost >= share);
    let rest: f64 = small.iter().map(|part| part.cost).sum();
    large.len() + (rest / share - 1e-9).ceil() as usize
}

/// Deals the parts, most expensive first, each to the share that costs least so far.
fn deal(mut parts: Vec<Part>, shards: usize) -> Vec<Vec<usize>> {
    parts.sort_by(|a, b| b.cost.total_cmp(&a.cost));
    // Each part goes to an empty share while there is one: the others stay empty.
    let mut shares = vec![Part::default(); shards.min(parts.len())];
    for part in parts {
        let poorest = shares.iter_mut().min_by(|a, b| a.cost.total_cmp(&b.cost));
        if let Some(share) = poorest {
            share.cost += part.cost;
            share.places.extend(part.places);
        }
    }
    let in_order = |mut share: Part| {
        share.places.sort_unstable();
        share.places
    };
    let mut shares: Vec<Vec<usize>> = shares.into_iter().map(in_order).collect();
    shares.resize(shards, Vec::new());
    shares
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
fn cut(cohort: &[usize], cost: &impl Fn(&usize) -> f64, share: f64, together: usize) -> Vec<Part> {
    let whole: f64 = cohort.iter().map(cost).sum();
    // Rounding must not cut a cohort that is exactly one share.
    let parts = ((whole / share - 1e-9).ceil() as usize).clamp(1, cohort.len());
    let size = cohort.len().div_ceil(parts).max(together);
    let part = |places: &[usize]| Part {
        cost: places.iter().map(cost).sum(),
        places: places.to_vec(),
    };
    cohort.chunks(size).map(part).collect()
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
        assert_eq!(
            partition(&items, Count::Exactly(2), 1),
            [vec![0, 2, 5], vec![1, 3, 4]]
        );
        assert_eq!(
            partition(&items, Count::Exactly(1), 1),
            [vec![0, 1, 2, 3, 4, 5]]
        );
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
        assert_eq!(
            partition(&items, Count::Exactly(2), 1),
            [vec![0, 1, 2, 6], vec![3, 4, 5]]
        );
    }

    #[test]
    fn more_shares_than_runs_leave_some_empty() {
        let items = [('a', 1.0), ('b', 1.0)];
        let sizes: Vec<usize> = partition(&items, Count::Exactly(4), 1)
            .iter()
            .map(Vec::len)
            .collect();
        assert_eq!(sizes, [1, 1, 0, 0]);
        assert_eq!(
            partition(&[('a', 0.0), ('a', 0.0)], Count::Exactly(2), 1),
            [vec![0], vec![1]]
        );
        assert_eq!(
            partition::<char>(&[], Count::Exactly(2), 1),
            [vec![], Vec::<usize>::new()]
        );
    }

    #[test]
    fn runs_trained_at_once_stay_together_and_long_ones_have_a_share_of_their_own() {
        // a: four runs of 100, b: ten of 1. Two at once, shares of 4: a goes by twos, each
        // far beyond a share; b fills ⌈10/4⌉ = 3, with 4, 4 and 2.
        let items: Vec<(char, f64)> = [vec![('a', 100.0); 4], vec![('b', 1.0); 10]].concat();
        let costing = |most| Count::Costing { share: 4.0, most };
        let shares = partition(&items, costing(1000), 2);
        let sizes: Vec<usize> = shares.iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2, 4, 4, 2]);
        assert_eq!(&shares[..2], [vec![0, 1], vec![2, 3]]);
        // With fewer shares all is dealt out all the same.
        let shares = partition(&items, costing(3), 2);
        assert_eq!(shares.concat().len(), items.len());
        assert_eq!(shares.len(), 3);
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
        let error = "1/1000000000000".parse::<Shard>().unwrap_err();
        assert!(error.contains("more than 1000000 shards"), "{error}");
    }

    proptest! {
        #[test]
        fn a_partition_is_whole_even_and_keeps_cohorts(
            items in prop::collection::vec((0_u8..12, 0.1_f64..50.0), 1..120),
            shards in 1_usize..20,
        ) {
            let shares = partition(&items, Count::Exactly(shards), 1);
            prop_assert_eq!(&shares, &partition(&items, Count::Exactly(shards), 1));
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
            for share in partition(&items, Count::Exactly(shards), 1) {
                let sum: f64 = share.iter().map(|at| items[*at].1).sum();
                // Equal parts of n runs in k parts have up to one run more than n / k.
                prop_assert!(sum <= 2.0 * fair + longest + 1e-6, "{sum} of {fair}");
            }
        }
    }
}
