//! What the values of flags may be. What passes here must not break anything later: a number that
//! no clock or memory can hold is refused by name.

use engine::kernels::Isa;
use spec::{BatchSize, LearningRate, Override, Width};

/// Seconds that are longer than any study, and short enough to add to a clock.
const LONGEST: f64 = 1e9;

/// More than any machine has cores.
const MOST_THREADS: usize = 4096;

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not {what}"))
}

pub fn width(text: &str) -> Result<Width, String> {
    Width::new(number(text, "a whole number")?).map_err(|error| error.to_string())
}

pub fn batch_size(text: &str) -> Result<BatchSize, String> {
    BatchSize::new(number(text, "a whole number")?).map_err(|error| error.to_string())
}

pub fn learning_rate(text: &str) -> Result<LearningRate, String> {
    LearningRate::new(number(text, "a number")?).map_err(|error| error.to_string())
}

pub fn instructions(text: &str) -> Result<Isa, String> {
    let sets = Isa::available();
    let found = sets.iter().copied().find(|set| set.to_string() == text);
    found.ok_or_else(|| {
        let names: Vec<String> = sets.iter().map(ToString::to_string).collect();
        format!("this processor has {}", names.join(", "))
    })
}

pub fn positive(text: &str) -> Result<f64, String> {
    let value: f64 = number(text, "a number")?;
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err(format!("`{text}` is not finite and above 0")),
    }
}

pub fn seconds(text: &str) -> Result<f64, String> {
    match positive(text)? {
        value if value <= LONGEST => Ok(value),
        _ => Err(format!("give at most {LONGEST} seconds")),
    }
}

pub fn threads(text: &str) -> Result<usize, String> {
    match number(text, "a whole number")? {
        0 => Err("at least 1 run must train at once".into()),
        threads if threads <= MOST_THREADS => Ok(threads),
        _ => Err(format!("at most {MOST_THREADS} runs can train at once")),
    }
}

pub fn override_(text: &str) -> Result<Override, String> {
    Override::parse(text).ok_or_else(|| "expected KEY=VALUE, e.g. search.batch_size=16".into())
}
