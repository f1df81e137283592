//! What a person sees while a study runs: a bar on a terminal, a line a minute elsewhere.

use super::cost::products;
use crate::output::tell;
use engine::train::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use spec::{Record, Run, RunId, Width};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Without a terminal, how often a line is written.
const LINE_EVERY: Duration = Duration::from_secs(60);

/// Progress of a study. Work is counted in products, since runs differ in length.
pub struct Display {
    bar: ProgressBar,
    terminal: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Products of all runs planned here, and of those done.
    total: f64,
    done: f64,
    runs: usize,
    runs_done: usize,
    /// Runs that went on from a checkpoint.
    resumed: usize,
    /// Products of the runs under way that are done.
    partial: HashMap<RunId, f64>,
    /// Accuracies by width and setting.
    points: BTreeMap<Width, HashMap<String, Vec<f64>>>,
    started: Option<Instant>,
    last_line: Option<Instant>,
}

impl Display {
    /// A display on standard error; `quiet` shows nothing but warnings.
    pub fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal() && !quiet;
        let bar = ProgressBar::new(1000);
        bar.set_draw_target(match terminal {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        });
        let style = ProgressStyle::with_template("{bar:30.cyan} {prefix}\n  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let state = State {
            last_line: quiet.then(far_future),
            ..State::default()
        };
        Self {
            bar,
            terminal,
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// More runs are to be trained; `recorded` are there already.
    pub fn plan<'a>(&self, runs: &[Run], recorded: impl Iterator<Item = &'a Record>) {
        let mut state = self.state();
        state.started.get_or_insert_with(Instant::now);
        state.total = state.done + runs.iter().map(products).sum::<f64>();
        state.runs = state.runs_done + runs.len();
        if state.points.is_empty() {
            for record in recorded {
                state.note(record);
            }
        }
    }

    /// A run has come so far.
    pub fn advanced(&self, run: &Run, progress: &Progress) {
        let share = progress.step as f64 / run.steps.max(1) as f64;
        let mut state = self.state();
        state.partial.insert(run.id(), share * products(run));
        self.show(&mut state);
    }

    /// A run was recorded.
    pub fn ended(&self, run: &Run, record: &Record) {
        let mut state = self.state();
        state.partial.remove(&run.id());
        state.done += products(run);
        state.runs_done += 1;
        state.note(record);
        self.show(&mut state);
    }

    /// An attempt at a run has failed: what it did does not count.
    pub fn failed(&self, run: &Run) {
        self.state().partial.remove(&run.id());
    }

    /// A run goes on from its checkpoint.
    pub fn resumed(&self) {
        self.state().resumed += 1;
    }

    /// How many runs were trained here and recorded.
    pub fn runs_trained(&self) -> usize {
        self.state().runs_done
    }

    /// How many runs went on from a checkpoint.
    pub fn runs_resumed(&self) -> usize {
        self.state().resumed
    }

    /// Says something that does not stop the study.
    pub fn warn(&self, text: &str) {
        self.bar.suspend(|| tell!("noisescale: warning: {text}"));
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn show(&self, state: &mut State) {
        if self.terminal {
            self.bar.set_position((1000.0 * state.share()) as u64);
            self.bar.set_prefix(state.headline());
            self.bar.set_message(state.best().unwrap_or_default());
            return;
        }
        let now = Instant::now();
        let since = state.last_line.or(state.started).unwrap_or(now);
        if now.saturating_duration_since(since) >= LINE_EVERY {
            state.last_line = Some(now);
            match state.best() {
                Some(best) => tell!("{}; {best}", state.headline()),
                None => tell!("{}", state.headline()),
            }
        }
    }
}

/// A time that no line is due after.
fn far_future() -> Instant {
    Instant::now() + Duration::from_secs(100 * 365 * 86_400)
}

impl State {
    fn note(&mut self, record: &Record) {
        let setting = format!("B {} ε {}", record.batch_size, record.learning_rate);
        let accuracies = self
            .points
            .entry(record.width)
            .or_default()
            .entry(setting)
            .or_default();
        accuracies.extend(record.outcome.trained());
    }

    fn share(&self) -> f64 {
        let partial: f64 = self.partial.values().sum();
        ((self.done + partial) / self.total.max(1.0)).min(1.0)
    }

    fn headline(&self) -> String {
        let share = self.share();
        let spent = self
            .started
            .map_or(0.0, |start| start.elapsed().as_secs_f64());
        let left = match share > 0.005 {
            true => format!("{} left", human_duration(spent * (1.0 - share) / share)),
            false => "estimating".into(),
        };
        format!(
            "{}/{} runs, {:.0} %, {left}",
            self.runs_done,
            self.runs,
            100.0 * share
        )
    }

    /// The setting with the best mean so far, by width; none before the first run that trained.
    fn best(&self) -> Option<String> {
        let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let mut text = String::new();
        for (width, settings) in &self.points {
            let trained = settings.iter().filter(|(_, values)| !values.is_empty());
            let best = trained.max_by(|a, b| mean(a.1).total_cmp(&mean(b.1)));
            if let Some((setting, values)) = best {
                // Writing to a string cannot fail.
                let _ = write!(text, "  w {width}: {setting} {:.2} %", 100.0 * mean(values));
            }
        }
        (!text.is_empty()).then(|| format!("best:{text}"))
    }
}

/// A duration for people: 45 s, 12 min, 3.5 h, 10 days.
pub fn human_duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5_400.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s if s < 730.0 * 86_400.0 => format!("{:.0} days", s / 86_400.0),
        s => format!("{:.0} years", s / (365.25 * 86_400.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::human_duration;

    #[test]
    fn durations_for_people() {
        let cases = [
            (45.0, "45 s"),
            (120.0, "2 min"),
            (9_000.0, "2.5 h"),
            (864_000.0, "10 days"),
            (1e9, "32 years"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
