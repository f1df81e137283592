//! What things are called on figures, in tables and on pages: one place for the words.

use crate::number;
use analysis::adaptive::ERROR_RATE;
use analysis::late::LateState;
use analysis::measure::Place;
use analysis::{
    Axis, Fixed, Interval, Measure, Optimum, RunCounts, Sample, SearchFindings, StudyBrief,
};
use spec::{BatchSize, LearningRate, Scheme, SearchKind, Spending, UpdateRule};

/// Where a piece of text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// On the baseline.
    Base,
    /// A subscript.
    Sub,
    /// A superscript.
    Super,
}

/// A piece of text on one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Its words.
    pub text: &'a str,
    /// Where it stands.
    pub level: Level,
}

/// The pieces of a text with subscripts written `_{…}` and superscripts `^{…}`.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut all = Vec::new();
    let mut push = |text, level| all.push(Piece { text, level });
    let mut rest = text;
    while let Some((before, level, from)) = first_mark(rest) {
        let Some((inside, after)) = from.split_once('}') else {
            break;
        };
        push(before, Level::Base);
        push(inside, level);
        rest = after;
    }
    push(rest, Level::Base);
    all.retain(|piece| !piece.text.is_empty());
    all
}

/// What stands before the first `_{` or `^{`, which it is, and what follows.
fn first_mark(text: &str) -> Option<(&str, Level, &str)> {
    let marks = [("_{", Level::Sub), ("^{", Level::Super)];
    let found = marks.map(|(mark, level)| Some((text.find(mark)?, level)));
    let (at, level) = found.into_iter().flatten().min_by_key(|(at, _)| *at)?;
    Some((&text[..at], level, &text[at + 2..]))
}

/// The text without markup: `ḡ_opt` for `ḡ_{opt}`.
pub fn plain(text: &str) -> String {
    joined(text, "_")
}

/// The text without markup for those who read or hear it as words: `ḡ opt` for `ḡ_{opt}`.
pub fn spoken(text: &str) -> String {
    joined(text, " ")
}

fn joined(text: &str, before_sub: &str) -> String {
    let piece = |piece: &Piece<'_>| match piece.level {
        Level::Base => piece.text.to_string(),
        Level::Sub => format!("{before_sub}{}", piece.text),
        Level::Super => format!("^{}", piece.text),
    };
    pieces(text).iter().map(piece).collect()
}

/// A name for files and links: lower-case letters, digits and single dashes.
pub fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.ends_with('-') && !out.is_empty() {
            out.push('-');
        }
    }
    out.trim_end_matches('-').into()
}

/// The name of a point in addresses: `batch-size-w16-b8-e5`.
pub fn point_key(search: SearchKind, place: Place) -> String {
    let search = match search {
        SearchKind::BatchSize => "batch-size",
        SearchKind::LearningRate => "learning-rate",
        SearchKind::Grid => "grid",
        SearchKind::Stability => "stability",
    };
    let Place {
        width,
        batch_size,
        learning_rate,
    } = place;
    format!("{search}-w{width}-b{batch_size}-e{}", learning_rate.get())
}

/// `batch-size search`.
pub fn search(kind: SearchKind) -> &'static str {
    match kind {
        SearchKind::BatchSize => "batch-size search",
        SearchKind::LearningRate => "learning-rate search",
        SearchKind::Grid => "grid",
        SearchKind::Stability => "stability scan",
    }
}

/// `B` or `ε`.
pub fn axis_symbol(axis: Axis) -> &'static str {
    match axis {
        Axis::BatchSize => "B",
        Axis::LearningRate => "ε",
    }
}

/// What a scan holds fixed: `ε = 10`, `B = 8`, or that it differs by width.
pub fn fixed(search: &SearchFindings) -> String {
    match (search.fixed, search.axis) {
        (Some(fixed), _) => fixed_value(fixed),
        (None, Axis::BatchSize) => by_width("ε", search),
        (None, Axis::LearningRate) => by_width("B", search),
    }
}

/// `ε = 0.0025 (w 2–4), 0.00125 (w 6–8)`.
fn by_width(symbol: &str, search: &SearchFindings) -> String {
    let mut parts: Vec<(Fixed, u32, u32)> = Vec::new();
    for found in &search.widths {
        let width = found.width.get();
        match parts.last_mut() {
            Some((fixed, _, last)) if *fixed == found.fixed => *last = width,
            _ => parts.push((found.fixed, width, width)),
        }
    }
    let each: Vec<String> = parts
        .iter()
        .map(|(fixed, first, last)| {
            let value = fixed_value(*fixed);
            let value = value.split_once("= ").map_or(value.as_str(), |(_, v)| v);
            if first == last {
                format!("{value} (w {first})")
            } else {
                format!("{value} (w {first}–{last})")
            }
        })
        .collect();
    format!("{symbol} = {}", each.join(", "))
}

/// `ε = 10` or `B = 8`.
pub fn fixed_value(fixed: Fixed) -> String {
    match fixed {
        Fixed::LearningRate(rate) => format!("ε = {}", self::rate(rate)),
        Fixed::BatchSize(size) => format!("B = {}", number::count(size.get().into())),
    }
}

/// A learning rate.
pub fn rate(rate: LearningRate) -> String {
    number::significant(rate.get(), 3)
}

/// The best interval along the scanned axis: `24–32`, or `32` alone.
pub fn best_values(axis: Axis, optimum: &Optimum) -> String {
    let size = |size: BatchSize| number::count(size.get().into());
    match axis {
        Axis::BatchSize => range(optimum.batch_sizes, size),
        Axis::LearningRate => range(optimum.learning_rates, rate),
    }
}

fn range<T: Copy>(ends: Interval<T>, show: impl Fn(T) -> String) -> String {
    let (low, high) = (show(ends.low), show(ends.high));
    if low == high {
        low
    } else {
        format!("{low}–{high}")
    }
}

/// `ḡ_{opt}`, `optimal 1/B`, ….
pub fn optimal(measure: Measure) -> String {
    match measure {
        Measure::NormalizedNoise => "ḡ_{opt}".into(),
        other => format!("optimal {}", other.symbol()),
    }
}

/// `noise scale`, `inverse batch size`, ….
pub fn measure_name(measure: Measure) -> &'static str {
    match measure {
        Measure::NormalizedNoise => "noise scale",
        Measure::InverseBatchSize => "inverse batch size",
        Measure::WidthOverBatchSize => "width over batch size",
        Measure::LearningRate => "learning rate",
        Measure::WidthTimesLearningRate => "width times learning rate",
    }
}

/// `97.98 ± 0.05 % (2 s.e., n = 20)`.
pub fn accuracy(sample: Sample) -> String {
    match sample.standard_error {
        Some(error) => format!(
            "{} ± {} % (2 s.e., n = {})",
            number::percent(sample.mean),
            number::percent(2.0 * error),
            sample.count
        ),
        None => format!(
            "{} % (n = {}, no spread)",
            number::percent(sample.mean),
            sample.count
        ),
    }
}

/// `settled`, `still rising`, `falling`, `unknown`.
pub fn late(state: LateState) -> &'static str {
    match state {
        LateState::Settled => "settled",
        LateState::StillRising => "still rising",
        LateState::Falling => "falling",
        LateState::Unknown => "unknown",
    }
}

/// `MNIST 1LP, NTK`, with batch norm and regularizers where there are any.
pub fn networks(study: &StudyBrief) -> String {
    let mut text = format!("{}, {}", without_scheme(study), scheme(study.scheme));
    if study.batch_norm {
        text += ", batch norm";
    }
    if let Some(words) = regularizers(study) {
        text += ", ";
        text += &words;
    }
    text
}

/// `MNIST 1LP`.
pub fn without_scheme(study: &StudyBrief) -> String {
    format!("{} {}", study.task, study.family_label)
}

/// `NTK scheme`.
pub fn scheme(scheme: Scheme) -> String {
    format!("{scheme} scheme")
}

/// How the velocity enters the step.
pub fn rule(rule: UpdateRule) -> &'static str {
    match rule {
        UpdateRule::Nesterov => "SGD with Nesterov momentum",
        UpdateRule::HeavyBall => "SGD with heavy-ball momentum",
    }
}

/// `dropout 0.3, label smoothing 0.1, crop 4, flip`; `None` without any.
pub fn regularizers(study: &StudyBrief) -> Option<String> {
    let used = &study.regularizers;
    let mut words = Vec::new();
    if used.dropout > 0.0 {
        words.push(format!("dropout {}", used.dropout));
    }
    if used.label_smoothing > 0.0 {
        words.push(format!("label smoothing {}", used.label_smoothing));
    }
    if used.augmentation.crop_padding > 0 {
        words.push(format!("crop {}", used.augmentation.crop_padding));
    }
    if used.augmentation.flip {
        words.push("flip".into());
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// The settings that a figure states below its title.
pub fn settings(study: &StudyBrief) -> String {
    format!("{} · {}", shared_settings(study), runs_per_point(study))
}

/// Those that several studies of the same networks have in common.
pub fn shared_settings(study: &StudyBrief) -> String {
    format!(
        "{} · m = {} · σ₀² = {} · N = {}",
        networks(study),
        study.momentum,
        study.weight_scale,
        number::count(study.examples.into()),
    )
}

/// `20 runs planned per point`, or `up to 20 runs per point` where the rule decides.
pub fn runs_per_point(study: &StudyBrief) -> String {
    let runs = counted(u64::from(study.seeds), "run");
    match study.spending {
        Spending::EverySeed => format!("{runs} planned per point"),
        Spending::Adaptive => format!("up to {runs} per point"),
    }
}

/// What the adaptive rule saved, if it did.
pub fn skipped(runs: RunCounts) -> Option<String> {
    (runs.skipped > 0).then(|| {
        format!(
            "{} left out by the adaptive rule: their points are unlikely to be in a best interval \
             (error rate {} % per scan)",
            counted(runs.skipped as u64, "run"),
            number::significant(100.0 * ERROR_RATE, 2)
        )
    })
}

/// `1 run`, `20 runs`.
pub fn counted(count: u64, thing: &str) -> String {
    counted_as(count, thing, &format!("{thing}s"))
}

/// `1 study`, `20 studies`.
pub fn counted_as(count: u64, one: &str, many: &str) -> String {
    let thing = if count == 1 { one } else { many };
    format!("{} {thing}", number::count(count))
}

/// A space at which no line ends.
pub const TIE: char = '\u{a0}';

/// Keeps an interval on one line with its value and its unit.
pub fn unbroken(text: &str) -> String {
    let (mut inside, mut last) = (false, ' ');
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        inside = c == '[' || (inside && c != ']');
        let before = matches!(rest.peek(), Some('[' | '·' | '%' | '='));
        let tied = inside || before || last == '=';
        out.push(if c == ' ' && tied { TIE } else { c });
        last = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscripts_and_superscripts_are_pieces() {
        let all = pieces("ḡ_{opt} (1/[loss])");
        assert_eq!(all.len(), 3);
        assert_eq!((all[1].text, all[1].level), ("opt", Level::Sub));
        assert_eq!(plain("ḡ_{opt} ∝ w^{p}"), "ḡ_opt ∝ w^p");
        assert_eq!(spoken("ḡ_{opt} ∝ w^{p}"), "ḡ opt ∝ w^p");
        let raised = pieces("w^{q} of ε_{half}");
        assert_eq!((raised[1].text, raised[1].level), ("q", Level::Super));
        // Without an end it is no subscript.
        assert_eq!(plain("a_{b"), "a_{b");
        assert_eq!(pieces(""), []);
    }

    #[test]
    fn what_the_rule_leaves_out_is_not_certain() {
        let runs = RunCounts {
            skipped: 172,
            ..RunCounts::default()
        };
        assert_eq!(
            skipped(runs).unwrap(),
            "172 runs left out by the adaptive rule: their points are unlikely to be in a best \
             interval (error rate 5 % per scan)"
        );
        assert_eq!(skipped(RunCounts::default()), None);
    }

    #[test]
    fn things_are_counted() {
        assert_eq!(counted(1, "run"), "1 run");
        assert_eq!(counted(20_000, "run"), "20,000 runs");
        assert_eq!(counted_as(1, "optimum", "optima"), "1 optimum");
        assert_eq!(counted_as(0, "optimum", "optima"), "0 optima");
    }

    #[test]
    fn slugs_are_safe_names() {
        assert_eq!(slug("MNIST 1LP, NTK scheme"), "mnist-1lp-ntk-scheme");
        assert_eq!(slug("../../<etc>"), "etc");
        assert_eq!(slug("ḡ"), "");
    }
}
