//! The fields of a message: each as what it must be, or a sentence on what it is instead.
//!
//! Python's `json` writes a number that is not finite as `NaN` or `Infinity`, which JSON does
//! not have. Such a word gets quotes before the line is read, and is told from other text after.

use serde::Deserialize;
use serde_json::Value;

/// What Python's `json` writes for numbers that are not finite.
const NOT_FINITE: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// A line as it is written; keys of the script's own are left aside.
#[derive(Deserialize)]
pub struct Line {
    outcome: Option<Value>,
    step: Option<Value>,
    test_accuracy: Option<Value>,
    validation_accuracy: Option<Value>,
    training_loss: Option<Value>,
}

/// What stands for a number.
enum Number<'a> {
    Finite(f64),
    /// One of Python's words.
    Word(&'a str),
}

impl Line {
    /// Reads a line of JSON, or of what Python takes for it.
    pub fn read(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(&with_quoted_words(line))
    }

    /// How the run ended, in a word.
    pub fn outcome(&self) -> Result<Option<&str>, String> {
        match &self.outcome {
            None => Ok(None),
            Some(Value::String(word)) => Ok(Some(word)),
            Some(other) => Err(format!(
                "`outcome` is \"trained\" or \"diverged\", not {other}"
            )),
        }
    }

    /// After how many steps. Python divides whole numbers into floats, which are as good.
    pub fn step(&self) -> Result<Option<u64>, String> {
        /// Above it not every whole number is a float.
        const EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
        let wrong = |given: &dyn std::fmt::Display| {
            Err(format!("`step` is a whole number of steps, not {given}"))
        };
        if let Some(step) = self.step.as_ref().and_then(Value::as_u64) {
            return Ok(Some(step));
        }
        match number(&self.step, "step")? {
            None => Ok(None),
            Some(Number::Finite(step)) if step.fract() == 0.0 && (0.0..=EXACT).contains(&step) => {
                Ok(Some(step as u64))
            }
            Some(Number::Finite(step)) => wrong(&step),
            Some(Number::Word(word)) => wrong(&word),
        }
    }

    /// On the test set.
    pub fn test_accuracy(&self) -> Result<Option<f64>, String> {
        accuracy(&self.test_accuracy, "test_accuracy")
    }

    /// On the validation set.
    pub fn validation_accuracy(&self) -> Result<Option<f64>, String> {
        accuracy(&self.validation_accuracy, "validation_accuracy")
    }

    /// The training loss, NaN for one that is not finite.
    pub fn training_loss(&self) -> Result<Option<f64>, String> {
        Ok(
            number(&self.training_loss, "training_loss")?.map(|loss| match loss {
                Number::Finite(loss) => loss,
                Number::Word(_) => f64::NAN,
            }),
        )
    }
}

fn accuracy(value: &Option<Value>, name: &str) -> Result<Option<f64>, String> {
    match number(value, name)? {
        None => Ok(None),
        Some(Number::Finite(value)) if (0.0..=1.0).contains(&value) => Ok(Some(value)),
        Some(Number::Finite(value)) => {
            Err(format!("`{name}` is a share between 0 and 1, not {value}"))
        }
        Some(Number::Word(word)) => Err(format!(
            "`{name}` is a share between 0 and 1, not {word}; a run that diverged says \
             \"outcome\": \"diverged\""
        )),
    }
}

fn number<'a>(value: &'a Option<Value>, name: &str) -> Result<Option<Number<'a>>, String> {
    let no_number = |what: &str| format!("`{name}` is a number, not {what}");
    match value {
        None => Ok(None),
        Some(Value::Number(number)) => Ok(number.as_f64().map(Number::Finite)),
        Some(Value::String(word)) if NOT_FINITE.contains(&word.as_str()) => {
            Ok(Some(Number::Word(word)))
        }
        Some(Value::String(word)) => {
            let remedy = match word.trim().parse::<f64>() {
                Ok(_) => "; write it without quotes",
                Err(_) => "",
            };
            Err(no_number(&format!("the text \"{word}\"")) + remedy)
        }
        Some(other) => Err(no_number(&other.to_string())),
    }
}

/// Puts quotes around the words that Python writes for numbers that are not finite.
fn with_quoted_words(line: &str) -> String {
    let mut quoted = String::with_capacity(line.len());
    let (mut inside, mut rest) = (false, line);
    while let Some(first) = rest.chars().next() {
        let word = NOT_FINITE
            .into_iter()
            .find(|word| !inside && rest.starts_with(word));
        let taken = match (word, first) {
            (Some(word), _) => {
                quoted.push_str(&format!("\"{word}\""));
                word.len()
            }
            (None, '\\') if inside => {
                let pair = rest.chars().take(2).map(char::len_utf8).sum();
                quoted.push_str(&rest[..pair]);
                pair
            }
            (None, _) => {
                inside ^= first == '"';
                quoted.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    quoted
}
