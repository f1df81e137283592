//! What a command prints: JSON lines, any number of evaluations and a last outcome.
//!
//! A line that does not begin with a brace is none of ours (libraries print what
//! they like) and goes to the run's log; one that does must be a message.
//! A loss that is not finite is how a script shows divergence. An accuracy that is not
//! is a mistake of the script.

use super::fields::Line;
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

/// Reads a line for a run; `None` if it is none of ours.
pub fn read(line: &str, run: &Run) -> Result<Option<Message>, Fault> {
    if !line.trim_start().starts_with('{') {
        return Ok(None);
    }
    let wrong = |reason: String| Fault {
        kind: FailureKind::Output,
        reason: format!("{reason}, in the line `{}`", shortened(line)),
    };
    let parsed = Line::read(line)
        .map_err(|error| wrong(format!("it is not a message in JSON ({error})")))?;
    message(&parsed, run).map(Some).map_err(wrong)
}

fn message(line: &Line, run: &Run) -> Result<Message, String> {
    match line.outcome()? {
        Some(outcome) => end(outcome, line, run).map(Message::End),
        None => evaluation(line, run),
    }
}

fn evaluation(line: &Line, run: &Run) -> Result<Message, String> {
    let Some(step) = line.step()? else {
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
    let training_loss = line.training_loss()?;
    if training_loss.is_some_and(|loss| !loss.is_finite()) {
        return Ok(Message::Divergence { step });
    }
    let needed = |value: Option<f64>, name: &str| {
        value.ok_or_else(|| format!("an evaluation needs `{name}`"))
    };
    Ok(Message::Evaluation(CurvePoint {
        step,
        training_loss,
        test_accuracy: needed(line.test_accuracy()?, "test_accuracy")?,
        validation_accuracy: needed(line.validation_accuracy()?, "validation_accuracy")?,
    }))
}

fn end(outcome: &str, line: &Line, run: &Run) -> Result<End, String> {
    let step = line.step()?;
    if let Some(step) = step.filter(|step| *step > run.steps) {
        return Err(format!(
            "step {step} is beyond the {} steps of the run",
            run.steps
        ));
    }
    match outcome {
        "trained" => {
            if let Some(step) = step.filter(|step| *step != run.steps) {
                let steps = run.steps;
                return Err(format!(
                    "a run is trained after its {steps} steps, not after {step}"
                ));
            }
            Ok(End::Trained {
                test_accuracy: (line.test_accuracy()?)
                    .ok_or("the end of a trained run needs `test_accuracy`")?,
                validation_accuracy: line.validation_accuracy()?,
                training_loss: line.training_loss()?.filter(|loss| loss.is_finite()),
            })
        }
        "diverged" => Ok(End::Diverged { step }),
        "stalled" => Err("whether a run has stalled is judged from its accuracies; \
                          report \"trained\" with the last one"
            .into()),
        other => Err(format!(
            "`outcome` is \"trained\" or \"diverged\", not \"{other}\""
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
                r#"{"step": 100.0, "test_accuracy": 1e0, "validation_accuracy": 1, "training_loss": null}"#,
                Message::Evaluation(CurvePoint {
                    step: 100,
                    training_loss: None,
                    test_accuracy: 1.0,
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
            (
                r#"{"step": -1}"#,
                "`step` is a whole number of steps, not -1,",
            ),
            (
                r#"{"step": 2.5}"#,
                "`step` is a whole number of steps, not 2.5,",
            ),
            (
                r#"{"step": NaN}"#,
                "`step` is a whole number of steps, not NaN,",
            ),
            (
                r#"{"step": "5"}"#,
                "`step` is a number, not the text \"5\"; write it without quotes,",
            ),
            (
                r#"{"outcome": "trained", "test_accuracy": "0.930"}"#,
                "`test_accuracy` is a number, not the text \"0.930\"; write it without quotes,",
            ),
            (
                r#"{"step": 5, "test_accuracy": 0.5, "validation_accuracy": [0.5]}"#,
                "`validation_accuracy` is a number, not [0.5],",
            ),
            (
                r#"{"outcome": true}"#,
                "`outcome` is \"trained\" or \"diverged\", not true",
            ),
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
