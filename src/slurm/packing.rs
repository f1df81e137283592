//! How many tasks, and how long each may take.

use super::parameters::{Parameters, TimeLimit};
use super::submission::Task;
use crate::failure::Mistake;
use crate::shard::{self, Count};
use spec::Run;

/// A task should end within this part of its time limit: estimates are rough.
const USABLE: f64 = 0.7;
/// The limit that is asked for where none is given: so many times the estimate …
const MARGIN: f64 = 2.0;
/// … and so many seconds for starting and loading.
const STARTING: f64 = 300.0;
/// A task is told so many seconds before its limit, or at this part of it.
const WARNING: u64 = 120;
const WARNING_PART: u64 = 4;

/// Shares out runs between tasks.
///
/// `max_array_size` bounds the index of a task from above: with tasks counted from 1
/// there are at most that many less one. If they do not suffice tasks are longer. A task
/// has at least as many runs of a cohort as it trains at once, so that no core idles.
pub fn pack(
    runs: Vec<Run>,
    parameters: &Parameters,
    max_array_size: u32,
    seconds: impl Fn(&Run) -> f64,
) -> Result<Vec<Task>, Mistake> {
    let most = max_array_size.saturating_sub(1).max(1);
    let lanes = f64::from(parameters.lanes());
    let count = match parameters.array {
        Some(count) if count > most => {
            return Err(Mistake(format!(
                "--array {count} is more than this cluster's arrays may have \
                 (MaxArraySize {max_array_size}): give at most {most}"
            )));
        }
        Some(count) => Count::Exactly(count as usize),
        None => Count::Costing {
            share: task_seconds(parameters) * lanes,
            most: most as usize,
        },
    };
    let together = parameters.lanes() as usize;
    let shares = shard::of_runs(runs, count, together, &seconds);
    let task = |runs: Vec<Run>| {
        let each = runs.iter().map(&seconds);
        let longest = each.clone().fold(0.0, f64::max);
        let seconds = (each.sum::<f64>() / lanes).max(longest);
        Task { runs, seconds }
    };
    Ok(shares
        .into_iter()
        .filter(|runs| !runs.is_empty())
        .map(task)
        .collect())
}

/// How long a task should take: as asked for, and well within its limit.
fn task_seconds(parameters: &Parameters) -> f64 {
    let asked = 60.0 * parameters.task_minutes;
    match parameters.time {
        Some(limit) => asked.min(USABLE * limit.seconds() as f64),
        None => asked,
    }
}

/// The time limit of the tasks.
pub fn time_limit(parameters: &Parameters, tasks: &[Task]) -> TimeLimit {
    let longest = tasks.iter().map(|task| task.seconds).fold(0.0, f64::max);
    parameters
        .time
        .unwrap_or_else(|| TimeLimit::at_least(MARGIN * longest + STARTING))
}

/// How many seconds before its limit a task is told to save its work.
pub fn warning(limit: TimeLimit) -> u64 {
    WARNING.min(limit.seconds() / WARNING_PART).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs() -> Vec<Run> {
        // 6 widths × (11 batch sizes + 9 rates − 1 shared) × 10 seeds.
        let study = crate::studies::open("quickstart", &[]).unwrap().study;
        spec::plan(&study)
    }

    fn usual() -> Parameters {
        Parameters {
            cpus_per_task: 2,
            ..Parameters::usual().unwrap()
        }
    }

    fn counted(parameters: &Parameters, max_array_size: u32, each: f64) -> usize {
        let tasks = pack(runs(), parameters, max_array_size, |_| each).unwrap();
        assert!(tasks.iter().all(|task| !task.runs.is_empty()));
        let packed: usize = tasks.iter().map(|task| task.runs.len()).sum();
        assert_eq!(packed, runs().len());
        tasks.len()
    }

    #[test]
    fn tasks_take_the_minutes_asked_for() {
        let total = runs().len() as f64;
        // At 12 s each on 2 cores, tasks of 20 min hold 200 runs.
        let expected = (total * 12.0 / 2.0 / 1200.0).ceil() as usize;
        assert_eq!(counted(&usual(), 1001, 12.0), expected);
        let tasks = pack(runs(), &usual(), 1001, |_| 12.0).unwrap();
        assert!(tasks.iter().all(|task| task.seconds < 2.0 * 1200.0));
        assert_eq!(counted(&usual(), 1001, 0.001), 1);
    }

    #[test]
    fn a_limit_makes_tasks_shorter_and_the_largest_array_makes_them_longer() {
        let limited = Parameters {
            time: Some("10".parse().unwrap()),
            ..usual()
        };
        let total = runs().len() as f64;
        let expected = (total * 12.0 / 2.0 / (0.7 * 600.0)).ceil() as usize;
        assert_eq!(counted(&limited, 1001, 12.0), expected);
        assert_eq!(time_limit(&limited, &[]), "10".parse().unwrap());
        assert_eq!(counted(&limited, 5, 12.0), 4);
    }

    #[test]
    fn the_number_of_tasks_may_be_given() {
        let given = Parameters {
            array: Some(7),
            ..usual()
        };
        assert_eq!(counted(&given, 1001, 1.0), 7);
        let refused = pack(runs(), &given, 7, |_| 1.0).unwrap_err().to_string();
        assert!(refused.contains("give at most 6"), "{refused}");
        let many = Parameters {
            array: Some(1_000_000),
            ..usual()
        };
        // Two at once, on two cores.
        assert_eq!(counted(&many, 10_000_000, 1.0), runs().len() / 2);
    }

    #[test]
    fn a_task_is_as_long_as_its_longest_run_and_is_told_in_time() {
        let alone = runs().into_iter().take(1).collect();
        let tasks = pack(alone, &usual(), 1001, |_| 1000.0).unwrap();
        assert!((tasks[0].seconds - 1000.0).abs() < 1e-9);
        // 2 × 1000 s and 5 min, in steps of 5 min.
        assert_eq!(time_limit(&usual(), &tasks).to_string(), "00:40:00");
        assert_eq!(warning("2:00:00".parse().unwrap()), 120);
        assert_eq!(warning("2".parse().unwrap()), 30);
    }
}
