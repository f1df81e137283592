//! A contestant's side of the conversation with peers.py, as ../../worker.py tells it.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

/// A layer with its sizes; ../../networks.py makes them.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LayerSpec {
    Dense {
        inputs: usize,
        units: usize,
        bias: bool,
    },
    Conv {
        inputs: usize,
        channels: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
        bias: bool,
    },
    Norm {
        channels: usize,
    },
    Relu,
    MaxPool,
    GlobalAveragePool,
    Flatten,
    Residual {
        body: Vec<LayerSpec>,
        shortcut: Vec<LayerSpec>,
    },
}

/// A network and its batch size.
#[derive(Debug, Deserialize)]
pub struct Case {
    pub layers: Vec<LayerSpec>,
    /// Height, width, channels.
    pub input: [usize; 3],
    pub classes: usize,
    pub batch: usize,
}

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Request {
    Prepare(Case),
    Check { steps: usize, learning_rate: f64 },
    Measure { seconds: f64, learning_rate: f64 },
}

/// A network in training.
pub trait Trainer: Sized {
    fn prepare(case: &Case) -> Result<Self>;
    /// Number of learned values.
    fn parameters(&self) -> usize;
    /// One step on the next batch; keeps the loss without waiting for it.
    fn step(&mut self, learning_rate: f64) -> Result<()>;
    /// The loss of the last step.
    fn loss(&self) -> Result<f64>;
}

/// Answers until the input ends.
pub fn serve<T: Trainer>(version: &str) -> Result<()> {
    let mut answers = std::io::stdout().lock();
    writeln!(answers, "{}", json!({ "version": version }))?;
    let mut trainer: Option<T> = None;
    for line in std::io::stdin().lock().lines() {
        let answer = serde_json::from_str(&line?)
            .map_err(anyhow::Error::from)
            .and_then(|request| answer(request, &mut trainer))
            .unwrap_or_else(|error| json!({ "error": format!("{error:#}") }));
        writeln!(answers, "{answer}")?;
    }
    Ok(())
}

fn answer<T: Trainer>(request: Request, trainer: &mut Option<T>) -> Result<Value> {
    if let Request::Prepare(case) = &request {
        *trainer = None;
        let made = trainer.insert(T::prepare(case)?);
        return Ok(json!({ "parameters": made.parameters() }));
    }
    let trainer = trainer.as_mut().context("nothing is prepared")?;
    match request {
        Request::Prepare(_) => unreachable!("answered above"),
        Request::Check {
            steps,
            learning_rate,
        } => {
            let mut losses = Vec::new();
            for _ in 0..steps {
                trainer.step(learning_rate)?;
                losses.push(trainer.loss()?);
            }
            Ok(json!({ "losses": losses }))
        }
        Request::Measure {
            seconds,
            learning_rate,
        } => measure(trainer, Duration::from_secs_f64(seconds), learning_rate),
    }
}

/// Steps until the time is over; one before it, to warm up.
/// The fastest of so many short slices, as `noisescale bench` takes it.
const SLICES: u32 = 25;

fn measure(trainer: &mut impl Trainer, time: Duration, learning_rate: f64) -> Result<Value> {
    trainer.step(learning_rate)?;
    let start = Instant::now();
    let mut best = 0.0f64;
    while best == 0.0 || start.elapsed() < time {
        let slice = Instant::now();
        let mut steps = 0;
        while steps == 0 || slice.elapsed() < time / SLICES {
            trainer.step(learning_rate)?;
            steps += 1;
        }
        best = best.max(f64::from(steps) / slice.elapsed().as_secs_f64());
    }
    Ok(json!({ "steps_per_second": best, "loss": trainer.loss()? }))
}
