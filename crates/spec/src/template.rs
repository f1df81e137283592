//! Text with places for a run's values, as the words of a command have them:
//! `--width={width}` becomes `--width=64`. Braces are doubled to stand for themselves.

use crate::run::Run;
use crate::scheme::Scheme;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A value that a command can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// w.
    Width,
    /// B.
    BatchSize,
    /// ε.
    LearningRate,
    /// The seed.
    Seed,
    /// T.
    Steps,
    /// `ntk` or `standard`.
    Scheme,
    /// σ₀².
    WeightScale,
    /// m.
    Momentum,
    /// How many evaluations the study asks for.
    Evaluations,
    /// The run's id.
    Run,
    /// The folder that the run may keep checkpoints in.
    RunFolder,
    /// Which of the commands that run at once this is, from 0.
    Slot,
}

impl Place {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Width,
        Self::BatchSize,
        Self::LearningRate,
        Self::Seed,
        Self::Steps,
        Self::Scheme,
        Self::WeightScale,
        Self::Momentum,
        Self::Evaluations,
        Self::Run,
        Self::RunFolder,
        Self::Slot,
    ];

    /// Those that every command must be told: without one of them, runs that
    /// ought to differ would be the same.
    pub const NEEDED: [Self; 5] = [
        Self::Width,
        Self::BatchSize,
        Self::LearningRate,
        Self::Seed,
        Self::Steps,
    ];

    /// What stands between the braces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Width => "width",
            Self::BatchSize => "batch_size",
            Self::LearningRate => "learning_rate",
            Self::Seed => "seed",
            Self::Steps => "steps",
            Self::Scheme => "scheme",
            Self::WeightScale => "weight_scale",
            Self::Momentum => "momentum",
            Self::Evaluations => "evaluations",
            Self::Run => "run",
            Self::RunFolder => "run_folder",
            Self::Slot => "slot",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|place| place.name() == name)
    }
}

/// One run as a command is told of it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its folder for checkpoints.
    pub run_folder: &'a str,
    /// Which of the commands that run at once this is, from 0.
    pub slot: usize,
}

impl Call<'_> {
    fn value(&self, place: Place) -> String {
        let (run, setting) = (self.run, &self.run.setting);
        match place {
            Place::Width => run.width.to_string(),
            Place::BatchSize => run.batch_size.to_string(),
            Place::LearningRate => run.learning_rate.get().to_string(),
            Place::Seed => run.seed.to_string(),
            Place::Steps => run.steps.to_string(),
            Place::Scheme => match setting.scheme {
                Scheme::Ntk => "ntk".into(),
                Scheme::Standard => "standard".into(),
            },
            Place::WeightScale => setting.weight_scale.get().to_string(),
            Place::Momentum => setting.optimizer.momentum.get().to_string(),
            Place::Evaluations => setting.evaluation.count.to_string(),
            Place::Run => run.id().to_string(),
            Place::RunFolder => self.run_folder.into(),
            Place::Slot => self.slot.to_string(),
        }
    }
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(Place),
}

/// Text with places for values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template {
    /// As it was written.
    text: String,
    pieces: Vec<Piece>,
}

/// Why text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A place that nothing fills.
    #[error(
        "`{{{name}}}` is no value of a run{}; known are {}; write {{{{ and }}}} for braces",
        suggestion(.name), known()
    )]
    Unknown {
        /// What stands between the braces.
        name: String,
    },
    /// An opening brace without its closing one, or the other way round.
    #[error("`{text}` has a brace without its partner; write {{{{ and }}}} for braces")]
    Unpaired {
        /// The whole text.
        text: String,
    },
}

fn known() -> String {
    let names: Vec<String> = Place::ALL
        .map(|place| format!("{{{}}}", place.name()))
        .into();
    names.join(", ")
}

fn suggestion(name: &str) -> String {
    let names = Place::ALL.map(Place::name);
    crate::study::nearest(name, &names)
        .map_or_else(String::new, |near| format!("; did you mean `{{{near}}}`?"))
}

impl Template {
    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let unpaired = || TemplateError::Unpaired { text: text.into() };
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                return Err(unpaired());
            }
            let (name, after) = rest.split_once('}').ok_or_else(unpaired)?;
            let place =
                Place::named(name).ok_or_else(|| TemplateError::Unknown { name: name.into() })?;
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Value(place));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Self {
            text: text.into(),
            pieces,
        })
    }

    /// The text for one run.
    pub fn fill(&self, call: &Call<'_>) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(place) => call.value(*place),
        };
        self.pieces.iter().map(piece).collect()
    }

    /// Whether the text holds this place.
    pub fn holds(&self, place: Place) -> bool {
        self.pieces.contains(&Piece::Value(place))
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Template {
    type Error = TemplateError;

    fn try_from(text: String) -> Result<Self, TemplateError> {
        Self::parse(&text)
    }
}

impl From<Template> for String {
    fn from(template: Template) -> Self {
        template.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_by_hand() {
        let template = Template::parse("a{{{width}}}b{seed}{{}}").unwrap();
        let text = |text: &str| Piece::Text(text.into());
        let expected = [
            text("a{"),
            Piece::Value(Place::Width),
            text("}b"),
            Piece::Value(Place::Seed),
            text("{}"),
        ];
        assert_eq!(template.pieces, expected);
        assert!(template.holds(Place::Seed) && !template.holds(Place::Steps));
        assert_eq!(template.to_string(), "a{{{width}}}b{seed}{{}}");
    }

    #[test]
    fn mistakes_are_explained() {
        for text in ["{", "}", "a{width", "width}", "{{{", "}}}"] {
            let error = Template::parse(text).unwrap_err();
            assert_eq!(error, TemplateError::Unpaired { text: text.into() });
        }
        let error = Template::parse("--w={widht}").unwrap_err().to_string();
        assert!(
            error.starts_with("`{widht}` is no value of a run; did you mean `{width}`?"),
            "{error}"
        );
        assert!(error.ends_with("write {{ and }} for braces"), "{error}");
    }
}
