//! The settings for another width, with all that a script needs to work them out for
//! any width: every word is written here, the script puts in numbers and chooses
//! between sentences. Without a script the card speaks of twice the largest width.

use super::parts::{rich, table, told};
use crate::caution::{Caution, Holds, cautions};
use crate::number;
use crate::svg::escaped;
use crate::table::{Cell, Column, Table};
use crate::{phrase, words};
use analysis::predict::{LimitSource, Pair, Stability, measured_widths};
use analysis::{Findings, Fixed, Interval, Measure, Prediction, Request, predict};
use serde::Serialize;
use spec::{BatchSize, LearningRate, Scheme, Width};
use std::fmt::Write;

/// What the formulas of `analysis::predict` need at any width.
#[derive(Serialize)]
struct Numbers {
    /// a and the ends of its interval.
    slope: f64,
    low: f64,
    high: f64,
    momentum: f64,
    /// σ₀².
    weight_scale: f64,
    /// N.
    examples: u32,
    scheme: Scheme,
    /// ε̄_max.
    limit: f64,
    /// The fitted widths' ends.
    first: u32,
    last: u32,
    /// Where the largest rate trained, by width; empty where a stability study gives the limit.
    trained: Vec<(u32, u32)>,
    /// The widths that have records.
    measured: Vec<Width>,
    /// What is held fixed, if anything is.
    fixed_rate: Option<f64>,
    fixed_size: Option<u32>,
}

/// The settings for twice the largest width, from the law of a study; empty without
/// one. The stability limit comes from a study of the same networks, if one is given.
pub fn card(findings: &Findings, all: &[Findings], id: &str) -> String {
    let fixed = findings.searches.iter().find_map(|search| search.fixed);
    let Some(prediction) = next_width(findings, all, fixed) else {
        return String::new();
    };
    let elsewhere = at_measured(findings, &prediction);
    let Some(numbers) = numbers(findings, &prediction, fixed, &elsewhere) else {
        return String::new();
    };
    let data = serde_json::to_string(&numbers).expect("numbers and names alone");
    let mut out = format!(
        "<section class=\"card predict\" data-law=\"{}\">\n<h2>Settings for another width</h2>\n",
        escaped(&data)
    );
    let _ = writeln!(
        out,
        "<p class=\"ask\" hidden><label for=\"{id}-slide\">width w</label>\
         <input type=\"range\" id=\"{id}-slide\" step=\"any\">\
         <input type=\"number\" min=\"1\" max=\"100000000\" step=\"1\" inputmode=\"numeric\" \
         id=\"{id}-width\" aria-label=\"width w\"></p>"
    );
    out.push_str("<p aria-live=\"polite\">");
    out.push_str(&answer(&prediction));
    out += "</p>\n";
    out += &list(findings, &prediction, &elsewhere);
    let _ = writeln!(
        out,
        "<details><summary>Batch sizes and learning rates on the law at \
         w = {}</summary>{}</details>",
        slot("width", &prediction.width.to_string()),
        table(&pairs(&prediction))
    );
    out += &source(&prediction);
    out
}

/// Which law it is, and the commands that say the same.
fn source(prediction: &Prediction) -> String {
    let pair = stable(prediction);
    let size = format!(
        " --batch-size {}",
        slot("size", &pair.map_or_else(String::new, size))
    );
    let limit = match prediction.limit.source {
        LimitSource::Stability => " --stability STABILITY_DIR",
        LimitSource::LargestTrained => "",
    };
    let table = " (without <code>--batch-size</code>: the table)";
    format!(
        "<p class=\"muted\">From the law of the {}, {} fitted, interval of a carried over. The same: \
         <code>noisescale predict DIR --width {}{}{limit}</code>{}</p>\n</section>\n",
        words::search(prediction.search),
        words::counted(prediction.fitted.len() as u64, "width"),
        slot("width", &prediction.width.to_string()),
        when("chosen", pair.is_some(), &size),
        when("chosen", pair.is_some(), table),
    )
}

/// The pair to propose: never a rate at which networks are not known to train.
fn stable(prediction: &Prediction) -> Option<Pair> {
    let pair = prediction.chosen?;
    (pair.stability == Stability::Allowed).then_some(pair)
}

fn size(pair: Pair) -> String {
    pair.batch_size.to_string()
}

/// A place for a number that the script keeps up to date.
fn slot(name: &str, text: &str) -> String {
    format!("<span data-p=\"{name}\">{}</span>", rich(text))
}

/// Words that hold under a condition, hidden where it does not.
fn when(condition: &str, holds: bool, html: &str) -> String {
    let hidden = if holds { "" } else { " hidden" };
    format!("<span data-when=\"{condition}\"{hidden}>{html}</span>")
}

fn answer(prediction: &Prediction) -> String {
    let noise = phrase::quantity(
        prediction.noise.value,
        Some(prediction.noise.interval),
        Measure::NormalizedNoise,
    );
    let out = format!(
        "For <strong>w = {}</strong> the law gives ḡ = <strong>{}</strong>",
        slot("width", &prediction.width.to_string()),
        slot("noise", &noise)
    );
    let pair = stable(prediction);
    let rate = pair.map_or_else(String::new, |pair| words::rate(pair.learning_rate));
    let ends = pair.map_or_else(String::new, |pair| ends(pair.learning_rates));
    let words = format!(
        ": <strong>ε\u{a0}= {}</strong> {} with <strong>B\u{a0}= {}</strong>",
        slot("rate", &rate),
        slot("rates", &ends),
        slot("size", &pair.map_or_else(String::new, size))
    );
    out + &when("chosen", pair.is_some(), &words) + ". " + &largest(prediction)
}

/// `[3.52, 4.97]`.
fn ends(rates: Interval<LearningRate>) -> String {
    format!("[{}, {}]", words::rate(rates.low), words::rate(rates.high))
}

fn largest(prediction: &Prediction) -> String {
    let source = match prediction.limit.source {
        LimitSource::Stability => "the largest that a stability study found safe".into(),
        LimitSource::LargestTrained => format!(
            "the largest that trained here, at w = {} with B = {}; the true limit may be higher",
            slot("limit-width", &prediction.limit.width.to_string()),
            slot("limit-size", &prediction.limit.batch_size.to_string())
        ),
    };
    let rate = slot("limit", &words::rate(prediction.limit.learning_rate));
    let size = prediction.largest_batch_size;
    let critical = number::significant(prediction.critical_width.value, 2);
    let reached = format!(
        "The largest batch size that reaches it with ε ≤ {rate} ({source}) is {}; beyond w ≈ \
         {critical} no batch size does.",
        slot(
            "largest",
            &size.map_or_else(String::new, |size| number::count(size.get().into()))
        )
    );
    let not = format!("No batch size reaches it with ε ≤ {rate} ({source}).");
    when("reached", size.is_some(), &reached) + &when("unreached", size.is_none(), &not)
}

/// The predictions for the measured widths where their limit rests on this study's own records: what
/// holds for the width nearest to the one that is asked for.
fn at_measured(findings: &Findings, prediction: &Prediction) -> Vec<Prediction> {
    if prediction.limit.source == LimitSource::Stability {
        return Vec::new();
    }
    let at = |width| {
        let request = Request {
            width,
            search: None,
            fixed: None,
        };
        predict(findings, None, &request).ok()
    };
    measured_widths(findings)
        .into_iter()
        .filter_map(at)
        .collect()
}

/// All cautions that any width may need; the script shows those of the width that is asked for.
fn list(findings: &Findings, prediction: &Prediction, elsewhere: &[Prediction]) -> String {
    let now = cautions(prediction, findings.runs);
    let mut all: Vec<Caution> = now.clone();
    for other in elsewhere {
        let more = cautions(other, findings.runs).into_iter();
        let new: Vec<Caution> = more.filter(|caution| !all.contains(caution)).collect();
        all.extend(new);
    }
    let item = |caution: &Caution| {
        let name = match caution.holds {
            Holds::Always => String::new(),
            Holds::Beyond => " data-when=\"beyond\"".into(),
            Holds::Near(width) => format!(" data-when=\"near-{width}\""),
        };
        let hidden = if now.contains(caution) { "" } else { " hidden" };
        format!("<li{name}{hidden}>{}</li>\n", told(&caution.text))
    };
    format!(
        "<ul class=\"cautions\">\n{}</ul>\n",
        all.iter().map(item).collect::<String>()
    )
}

fn numbers(
    findings: &Findings,
    prediction: &Prediction,
    fixed: Option<Fixed>,
    elsewhere: &[Prediction],
) -> Option<Numbers> {
    let law = findings.search(prediction.search)?.law.law().ok()?;
    let study = &findings.study;
    let slope = law.proportion.slope;
    let ends = law.slope_confidence.map(|confidence| confidence.interval);
    let place = |found: &Prediction| (found.limit.width.get(), found.limit.batch_size.get());
    let mut trained: Vec<(u32, u32)> = elsewhere.iter().map(place).collect();
    trained.sort_unstable();
    trained.dedup();
    Some(Numbers {
        slope,
        low: ends.map_or(slope, |ends| ends.low),
        high: ends.map_or(slope, |ends| ends.high),
        momentum: study.momentum.get(),
        weight_scale: study.weight_scale.get(),
        examples: study.examples,
        scheme: study.scheme,
        limit: prediction.limit.normalized,
        first: law.widths.first()?.get(),
        last: law.widths.last()?.get(),
        trained,
        measured: measured_widths(findings),
        fixed_rate: match fixed {
            Some(Fixed::LearningRate(rate)) => Some(rate.get()),
            _ => None,
        },
        fixed_size: match fixed {
            Some(Fixed::BatchSize(size)) => Some(size.get()),
            _ => None,
        },
    })
}

/// The settings for twice the largest width: with the batch size that a study holds fixed, or, where
/// it holds the learning rate fixed, with the whole batch size that comes nearest to it on the law.
fn next_width(findings: &Findings, all: &[Findings], fixed: Option<Fixed>) -> Option<Prediction> {
    let widest = findings.study.widths.last()?.get();
    let stability = all.iter().find(|other| {
        other.stability.is_some()
            && other.study.scheme == findings.study.scheme
            && other.study.same_networks(&findings.study)
    });
    let open = Request {
        width: Width::new(widest.checked_mul(2)?).ok()?,
        search: None,
        fixed: None,
    };
    let (stability, found) = match predict(findings, stability, &open) {
        Ok(found) => (stability, found),
        Err(_) => (None, predict(findings, None, &open).ok()?),
    };
    let size = match fixed {
        Some(Fixed::BatchSize(size)) => Some(size),
        Some(Fixed::LearningRate(rate)) => nearest_size(&found, rate),
        None => None,
    };
    let request = Request {
        fixed: size.map(Fixed::BatchSize),
        ..open
    };
    predict(findings, stability, &request).ok().or(Some(found))
}

/// The whole batch size whose learning rate on the law comes nearest to this one, among those
/// that keep to the limit.
fn nearest_size(found: &Prediction, rate: LearningRate) -> Option<BatchSize> {
    let largest = found.largest_batch_size?.get();
    // On the law ε grows in proportion to B.
    let alone = found.pairs.first()?;
    let real = rate.get() / alone.learning_rate.get() * f64::from(alone.batch_size.get());
    BatchSize::new(real.round().clamp(1.0, f64::from(largest)) as u32).ok()
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
        table.rows.push(vec![
            Cell::number(pair.batch_size.to_string(), pair.batch_size.get().into()),
            Cell::number(words::rate(pair.learning_rate), pair.learning_rate.get()),
            Cell::words(ends(pair.learning_rates)),
            Cell::words(match pair.stability {
                Stability::Allowed => "within the known limit",
                Stability::AboveLimit => "above the known limit",
            }),
        ]);
    }
    table
}
