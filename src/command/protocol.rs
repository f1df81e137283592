//! What a command prints: JSON lines, any number of evaluations and a last outcome.
//!
//! A line that does not begin with a brace is none of ours (libraries print what
//! they like) and goes to the run's log; one that does must be a message.
//! Python's `json` writes a number that is not finite as `NaN` or `Infinity`,
//! which JSON does not have: such a loss is how a script shows divergence, so these
//! words are read. An accuracy that is not a number is a mistake of the script.

use serde::Deserialize;
use spec::{CurvePoint, FailureKind, Fault, Outcome, Run};

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// An evaluation.
    Evaluation(CurvePoint),
    /// The run has diverged and goes on no more.
    Divergence {
        /// Where that was seen.
        step: u64,
    },
    /// The run has ended.
    End(End),
}

/// How a command says its run ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// After all steps.
    Trained {
        /// At the last step.
        test_accuracy: f64,
        /// At the last step, where it tells.
        validation_accuracy: Option<f64>,
        /// Mean since the previous evaluation, where it tells.
        training_loss: Option<f64>,
    },
    /// Before that.
    Diverged {
        /// Where that was seen, where it tells.
        step: Option<u64>,
    },
}

/// A line as it is written; keys of the script's own are left aside.
#[derive(Deserialize)]
struct Line {
    outcome: Option<String>,
    step: Option<u64>,
    test_accuracy: Option<Number>,
    validation_accuracy: Option<Number>,
    training_loss: Option<Number>,
}

/// What Python's `json` writes for numbers that are not finite.
const NOT_FINITE: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

/// A number, or a word where one should be.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Word(String),
}

/// Reads a line for a run; `None` if it is none of ours.
pub fn read(line: &str, run: &Run) -> Result<Option<Message>, Fault> {
    if !line.trim_start().starts_with('{') {
        return Ok(None);
    }
    let wrong = |reason: String| Fault {
        kind: FailureKind::Output,
        reason: format!("{reason}, in the line `{}`", shortened(line)),
    };
    let parsed: Line = serde_json::from_str(&with_quoted_words(line))
        .map_err(|error| wrong(format!("it is not a message in JSON ({error})")))?;
    let message = match &parsed.outcome {
        Some(outcome) => end(outcome, &parsed, run).map(Message::End),
        None => evaluation(&parsed, run),
    };
    message.map(Some).map_err(wrong)
}

fn evaluation(line: &Line, run: &Run) -> Result<Message, String> {
    let Some(step) = line.step else {
        return Err(
            "an evaluation has `step`, `test_accuracy` and `validation_accuracy`, \
                    an end has `outcome`; it has neither `step` nor `outcome`"
                .into(),
        );
    };
    if step > run.steps {
        return Err(format!(
            "step {step} is beyond the {} steps of the run",
            run.steps
        ));
    }
    let training_loss = training_loss(line)?;
    if training_loss.is_some_and(|loss| !loss.is_finite()) {
        return Ok(Message::Divergence { step });
    }
    let needed = |value: Option<f64>, name: &str| {
        value.ok_or_else(|| format!("an evaluation needs `{name}`"))
    };
    Ok(Message::Evaluation(CurvePoint {
        step,
        training_loss,
        test_accuracy: needed(
            accuracy(&line.test_accuracy, "test_accuracy")?,
            "test_accuracy",
        )?,
        validation_accuracy: needed(
            accuracy(&line.validation_accuracy, "validation_accuracy")?,
            "validation_accuracy",
        )?,
    }))
}

fn end(outcome: &str, line: &Line, run: &Run) -> Result<End, String> {
    if let Some(step) = line.step.filter(|step| *step > run.steps) {
        return Err(format!(
            "step {step} is beyond the {} steps of the run",
            run.steps
        ));
    }
    match outcome {
        "trained" => {
            if let Some(step) = line.step.filter(|step| *step != run.steps) {
                let steps = run.steps;
                return Err(format!(
                    "a run is trained after its {steps} steps, not after {step}"
                ));
            }
            let test_accuracy = accuracy(&line.test_accuracy, "test_accuracy")?;
            Ok(End::Trained {
                test_accuracy: test_accuracy
                    .ok_or("the end of a trained run needs `test_accuracy`")?,
                validation_accuracy: accuracy(&line.validation_accuracy, "validation_accuracy")?,
                training_loss: training_loss(line)?.filter(|loss| loss.is_finite()),
            })
        }
        "diverged" => Ok(End::Diverged { step: line.step }),
        "stalled" => Err("whether a run has stalled is judged from its accuracies; \
                          report \"trained\" with the last one"
            .into()),
        other => Err(format!(
            "`outcome` is \"trained\" or \"diverged\", not \"{other}\""
        )),
    }
}

/// The training loss, NaN for one that is not finite.
fn training_loss(line: &Line) -> Result<Option<f64>, String> {
    match &line.training_loss {
        None => Ok(None),
        Some(Number::Finite(loss)) => Ok(Some(*loss)),
        Some(Number::Word(word)) if NOT_FINITE.contains(&word.as_str()) => Ok(Some(f64::NAN)),
        Some(Number::Word(word)) => Err(format!(
            "`training_loss` is a number, NaN, Infinity or -Infinity, not \"{word}\""
        )),
    }
}

fn accuracy(value: &Option<Number>, name: &str) -> Result<Option<f64>, String> {
    match value {
        None => Ok(None),
        Some(Number::Finite(value)) if (0.0..=1.0).contains(value) => Ok(Some(*value)),
        Some(Number::Finite(value)) => {
            Err(format!("`{name}` is a share between 0 and 1, not {value}"))
        }
        Some(Number::Word(word)) => Err(format!(
            "`{name}` is a share between 0 and 1, not {word}; a run that diverged says \
             \"outcome\": \"diverged\""
        )),
    }
}

/// What a trained or diverged end is by the study's rules.
pub fn outcome(end: End, run: &Run, last_step: u64) -> Outcome {
    match end {
        End::Diverged { step } => Outcome::Diverged {
            step: step.unwrap_or(last_step),
        },
        End::Trained { test_accuracy, .. } => {
            let at_end = run
                .setting
                .evaluation
                .judge(run.steps, run.steps, test_accuracy);
            at_end.expect("a run always ends at its last step")
        }
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

/// The beginning of a line, for a sentence.
fn shortened(line: &str) -> String {
    const MOST: usize = 120;
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.trim_end().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::Study;
    use std::path::Path;

    /// A run of 100 steps.
    fn run() -> Run {
        let text = r#"
            [trainer]
            command = ["c", "{width}{batch_size}{learning_rate}{seed}{steps}"]
            [task]
            name = "none"
            training_examples = 100
            chance_accuracy = 0.1
            [family]
            widths = [1]
            scheme = "ntk"
            [optimizer]
            momentum = 0.0
            [search]
            kind = "batch-size"
            learning_rate = 1.0
            batch_sizes = [1]
            [time]
            epochs = 1
        "#;
        let study = Study::parse("test", Path::new("test"), text, &[]).unwrap();
        spec::plan(&study).swap_remove(0)
    }

    #[test]
    fn messages_are_read() {
        let cases = [
            (
                r#"{"step": 5, "test_accuracy": 0.5, "validation_accuracy": 1, "epoch": 3}"#,
                Message::Evaluation(CurvePoint {
                    step: 5,
                    training_loss: None,
                    test_accuracy: 0.5,
                    validation_accuracy: 1.0,
                }),
            ),
            (
                r#" {"note": "a \" NaN {", "step": 7, "training_loss": NaN, "test_accuracy": 0.1}"#,
                Message::Divergence { step: 7 },
            ),
            (
                r#"{"step": 7, "training_loss": -Infinity}"#,
                Message::Divergence { step: 7 },
            ),
            (
                r#"{"outcome": "trained", "test_accuracy": 0.75, "training_loss": 2}"#,
                Message::End(End::Trained {
                    test_accuracy: 0.75,
                    validation_accuracy: None,
                    training_loss: Some(2.0),
                }),
            ),
            (
                r#"{"outcome": "diverged", "step": 9, "test_accuracy": NaN}"#,
                Message::End(End::Diverged { step: Some(9) }),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(read(line, &run()).unwrap(), Some(expected), "{line}");
        }
        for noise in ["", "Epoch 1: 0.5", "[1, 2]", "loss = {0.5}"] {
            assert_eq!(read(noise, &run()).unwrap(), None);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("{", "not a message in JSON"),
            ("{}", "neither `step` nor `outcome`"),
            (r#"{"test_acuracy": 0.5}"#, "neither `step` nor `outcome`"),
            (
                r#"{"step": 5, "test_accuracy": 0.5}"#,
                "needs `validation_accuracy`",
            ),
            (
                r#"{"step": 5, "test_accuracy": 51.3, "validation_accuracy": 0.5}"#,
                "`test_accuracy` is a share between 0 and 1, not 51.3",
            ),
            (
                r#"{"step": 5, "test_accuracy": NaN, "validation_accuracy": 0.5}"#,
                "`test_accuracy` is a share between 0 and 1, not NaN",
            ),
            (
                r#"{"step": 101, "test_accuracy": 0.5}"#,
                "beyond the 100 steps",
            ),
            (r#"{"step": -1}"#, "not a message in JSON"),
            (r#"{"outcome": "trained"}"#, "needs `test_accuracy`"),
            (
                r#"{"outcome": "trained", "step": 99, "test_accuracy": 0.5}"#,
                "after its 100 steps, not after 99",
            ),
            (
                r#"{"outcome": "done"}"#,
                "\"trained\" or \"diverged\", not \"done\"",
            ),
            (r#"{"outcome": "stalled"}"#, "judged from its accuracies"),
        ];
        for (line, expected) in cases {
            let fault = read(line, &run()).unwrap_err();
            assert_eq!(fault.kind, FailureKind::Output);
            assert!(fault.reason.contains(expected), "{line}: {}", fault.reason);
            assert!(fault.reason.contains(line), "{}", fault.reason);
        }
    }

    /// Of words, only those that Python writes for numbers are a loss.
    #[test]
    fn a_loss_in_other_words_is_no_divergence() {
        for line in [
            r#"{"step": 5, "training_loss": "0.31", "test_accuracy": 0.5, "validation_accuracy": 0.5}"#,
            r#"{"step": 5, "training_loss": "n/a", "test_accuracy": 0.5, "validation_accuracy": 0.5}"#,
            r#"{"outcome": "trained", "training_loss": "", "test_accuracy": 0.5}"#,
        ] {
            let fault = read(line, &run()).unwrap_err();
            assert_eq!(fault.kind, FailureKind::Output);
            assert!(
                fault.reason.contains("`training_loss` is a number"),
                "{line}: {}",
                fault.reason
            );
        }
        for word in ["NaN", "Infinity", "-Infinity"] {
            let line = format!(r#"{{"step": 5, "training_loss": {word}}}"#);
            let message = read(&line, &run()).unwrap();
            assert_eq!(message, Some(Message::Divergence { step: 5 }), "{line}");
        }
    }

    #[test]
    fn ends_are_judged_by_the_study() {
        let trained = |test_accuracy| End::Trained {
            test_accuracy,
            validation_accuracy: None,
            training_loss: None,
        };
        let run = run();
        assert_eq!(
            outcome(trained(0.5), &run, 90),
            Outcome::Trained { test_accuracy: 0.5 }
        );
        assert_eq!(
            outcome(trained(0.1), &run, 90),
            Outcome::Stalled {
                step: 100,
                test_accuracy: 0.1
            }
        );
        let diverged = End::Diverged { step: None };
        assert_eq!(outcome(diverged, &run, 90), Outcome::Diverged { step: 90 });
    }
}
