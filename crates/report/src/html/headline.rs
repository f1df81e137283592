//! What a study found, in sentences: the law, and the settings for the next width.

use super::parts::{rich, table};
use crate::number;
use crate::svg::escaped;
use crate::table::{Cell, Column, Table};
use crate::{phrase, words};
use analysis::predict::{LimitSource, Reach, Stability};
use analysis::{Findings, Law, Measure, Prediction, Request, SearchFindings, predict};
use spec::Width;

/// The law of every search in a sentence each, or why there is none.
pub fn law_sentences(findings: &Findings) -> String {
    let sentences: Vec<String> = (findings.searches.iter())
        .map(|search| format!("<p class=\"lead\">{}</p>\n", law_sentence(findings, search)))
        .collect();
    sentences.concat()
}

fn law_sentence(findings: &Findings, search: &SearchFindings) -> String {
    let name = format!("{} at {}", words::search(search.kind), words::fixed(search));
    let law = match search.law.law() {
        Ok(law) => law,
        Err(reason) => return rich(&format!("{}: {reason}.", capital(&name))),
    };
    let optimal = words::optimal(law.measure);
    let claim = match law.is_linear() {
        Some(true) => "the optimum grows in proportion to the width",
        Some(false) => "the optimum does not grow in proportion to the width",
        None => "the optimum against the width",
    };
    rich(&format!(
        "{}: {claim}, {optimal} = a·w with a = {} and R² = {}. The exponent of w is p = {}; {}. \
         {}; {}.",
        capital(&name),
        phrase::slope(law),
        phrase::r_squared(law),
        phrase::exponent(law),
        phrase::linearity(law),
        capital(&basis(findings, law)),
        excluded(law)
    ))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn basis(findings: &Findings, law: &Law) -> String {
    let level = law.slope_confidence.map_or_else(String::new, |confidence| {
        format!("{} bootstrap intervals, ", phrase::level(confidence))
    });
    format!(
        "{level}{}, {}",
        words::counted(law.widths.len() as u64, "fitted width"),
        words::runs_per_point(&findings.study)
    )
}

fn excluded(law: &Law) -> String {
    if law.excluded.is_empty() {
        return "none left out".into();
    }
    let each: Vec<String> = law.excluded.iter().map(ToString::to_string).collect();
    format!("left out: {}", each.join("; "))
}

/// The settings for twice the largest width, from the law of a study; empty without
/// one. The stability limit comes from a study of the same networks, if one is given.
pub fn meaning(findings: &Findings, all: &[Findings]) -> String {
    let Some(prediction) = next_width(findings, all) else {
        return String::new();
    };
    let reach = match prediction.reach {
        Reach::Extrapolates => "beyond the fitted widths",
        Reach::Interpolates => "within the fitted widths",
    };
    let mut text = format!(
        "<strong>What it means.</strong> For w = {} ({reach}) the law gives ḡ = {}",
        prediction.width,
        rich(&phrase::quantity(
            prediction.noise.value,
            Some(prediction.noise.interval),
            Measure::NormalizedNoise
        ))
    );
    if let Some(pair) = prediction.chosen {
        text += &format!(
            ": ε = {} with B = {}",
            words::rate(pair.learning_rate),
            pair.batch_size
        );
    }
    text += ". ";
    text += &largest(&prediction);
    format!(
        "<div class=\"meaning\"><p>{text}</p>\n<details><summary>Batch sizes and learning rates \
         on the law at w = {}</summary>{}</details></div>\n",
        prediction.width,
        table(&pairs(&prediction))
    )
}

fn next_width(findings: &Findings, all: &[Findings]) -> Option<Prediction> {
    let widest = findings.study.widths.last()?.get();
    let stability = all.iter().find(|other| {
        other.stability.is_some()
            && other.study.scheme == findings.study.scheme
            && other.study.same_networks(&findings.study)
    });
    let request = Request {
        width: Width::new(widest.checked_mul(2)?).ok()?,
        search: None,
        fixed: findings.searches.iter().find_map(|search| search.fixed),
    };
    let open = Request {
        fixed: None,
        ..request
    };
    // At a fixed rate that is too small there is no pair, but still a law.
    predict(findings, stability, &request)
        .or_else(|_| predict(findings, stability, &open))
        .or_else(|_| predict(findings, None, &open))
        .ok()
}

fn largest(prediction: &Prediction) -> String {
    let source = match prediction.limit.source {
        LimitSource::Stability => "the largest that a stability study found safe",
        LimitSource::LargestTrained => {
            "the largest that trained here; the true limit may be higher"
        }
    };
    let rate = words::rate(prediction.limit.learning_rate);
    match prediction.largest_batch_size {
        Some(size) => format!(
            "The largest batch size that reaches it with ε ≤ {rate} ({source}) is {}; beyond \
             w ≈ {} no batch size does.",
            number::count(size.get().into()),
            number::significant(prediction.critical_width.value, 2)
        ),
        None => format!("No batch size reaches it with ε ≤ {rate} ({source})."),
    }
}

fn pairs(prediction: &Prediction) -> Table {
    let mut table = Table::new(
        "",
        vec![
            Column::numbers("B", ""),
            Column::numbers("ε", "[weight]²/[loss]"),
            Column::words("from the interval of a"),
            Column::words("stability"),
        ],
    );
    for pair in &prediction.pairs {
        let ends = analysis::Interval {
            low: pair.learning_rates.low.get(),
            high: pair.learning_rates.high.get(),
        };
        table.rows.push(vec![
            Cell::number(pair.batch_size.to_string(), pair.batch_size.get().into()),
            Cell::number(words::rate(pair.learning_rate), pair.learning_rate.get()),
            Cell::words(format!(
                "[{}, {}]",
                number::significant(ends.low, 3),
                number::significant(ends.high, 3)
            )),
            Cell::words(match pair.stability {
                Stability::Allowed => "within the known limit",
                Stability::AboveLimit => "above the known limit",
            }),
        ]);
    }
    table
}

/// How far a study is.
pub fn progress(findings: &Findings) -> String {
    let runs = findings.runs;
    let mut label = format!(
        "{} of {} recorded",
        number::count(runs.recorded as u64),
        words::counted(runs.planned as u64, "planned run")
    );
    if let Some(skipped) = words::skipped(runs) {
        label += &format!("; {skipped}");
    }
    format!(
        "<div class=\"progress\"><progress value=\"{}\" max=\"{}\" aria-label=\"{}\"></progress>\
         <span>{label}</span></div>\n",
        runs.recorded,
        runs.planned.max(1),
        escaped(&label)
    )
}
