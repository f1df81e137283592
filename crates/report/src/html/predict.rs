//! The settings for another width, with all that a script needs to work them out for
//! any width: every word is written here, the script puts in numbers and chooses
//! between sentences. Without a script the card speaks of twice the largest width.

use super::parts::{rich, table};
use crate::number;
use crate::svg::escaped;
use crate::table::{Cell, Column, Table};
use crate::{phrase, words};
use analysis::predict::{LimitSource, Reach, Stability};
use analysis::{Findings, Fixed, Measure, Prediction, Request, predict};
use serde::Serialize;
use spec::{Scheme, Width};
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
    /// What is held fixed, if anything is.
    fixed_rate: Option<f64>,
    fixed_size: Option<u32>,
}

/// The settings for twice the largest width, from the law of a study; empty without
/// one. The stability limit comes from a study of the same networks, if one is given.
pub fn card(findings: &Findings, all: &[Findings], id: &str) -> String {
    let Some((prediction, fixed)) = next_width(findings, all) else {
        return String::new();
    };
    let Some(numbers) = numbers(findings, &prediction, fixed) else {
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
    out.push_str(&answer(&prediction, fixed));
    let _ = write!(
        out,
        "</p>\n<details><summary>Batch sizes and learning rates on the law at \
         w = {}</summary>{}</details>\n",
        slot("width", &prediction.width.to_string()),
        table(&pairs(&prediction))
    );
    let _ = write!(
        out,
        "<p class=\"muted\">From the law of the {}, {} fitted, interval of a carried over. The same: \
         <code>noisescale predict DIR --width {}</code></p>\n</section>\n",
        words::search(prediction.search),
        words::counted(prediction.fitted.len() as u64, "width"),
        slot("width", &prediction.width.to_string()),
    );
    out
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

fn answer(prediction: &Prediction, fixed: Option<Fixed>) -> String {
    let beyond = prediction.reach == Reach::Extrapolates;
    let noise = phrase::quantity(
        prediction.noise.value,
        Some(prediction.noise.interval),
        Measure::NormalizedNoise,
    );
    let mut out = format!(
        "For <strong>w = {}</strong> ({}{}) the law gives ḡ = <strong>{}</strong>",
        slot("width", &prediction.width.to_string()),
        when("beyond", beyond, "beyond the fitted widths"),
        when("within", !beyond, "within the fitted widths"),
        slot("noise", &noise)
    );
    if fixed.is_some() {
        let pair = prediction.chosen;
        let rate = pair.map_or_else(String::new, |pair| words::rate(pair.learning_rate));
        let size = pair.map_or_else(String::new, |pair| pair.batch_size.to_string());
        let words = format!(
            ": <strong>ε = {}</strong> with <strong>B = {}</strong>",
            slot("rate", &rate),
            slot("size", &size)
        );
        // Never a rate at which networks are not known to train.
        let stable = pair.is_some_and(|pair| pair.stability == Stability::Allowed);
        out += &when("chosen", stable, &words);
    }
    out + ". " + &largest(prediction)
}

fn largest(prediction: &Prediction) -> String {
    let source = match prediction.limit.source {
        LimitSource::Stability => "the largest that a stability study found safe",
        LimitSource::LargestTrained => {
            "the largest that trained here; the true limit may be higher"
        }
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

fn numbers(findings: &Findings, prediction: &Prediction, fixed: Option<Fixed>) -> Option<Numbers> {
    let law = findings.search(prediction.search)?.law.law().ok()?;
    let study = &findings.study;
    let slope = law.proportion.slope;
    let ends = law.slope_confidence.map(|confidence| confidence.interval);
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

fn next_width(findings: &Findings, all: &[Findings]) -> Option<(Prediction, Option<Fixed>)> {
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
    let prediction = predict(findings, stability, &request)
        .or_else(|_| predict(findings, stability, &open))
        .or_else(|_| predict(findings, None, &open))
        .ok()?;
    Some((prediction, request.fixed))
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
        let ends = pair.learning_rates;
        table.rows.push(vec![
            Cell::number(pair.batch_size.to_string(), pair.batch_size.get().into()),
            Cell::number(words::rate(pair.learning_rate), pair.learning_rate.get()),
            Cell::words(format!(
                "[{}, {}]",
                number::significant(ends.low.get(), 3),
                number::significant(ends.high.get(), 3)
            )),
            Cell::words(match pair.stability {
                Stability::Allowed => "within the known limit",
                Stability::AboveLimit => "above the known limit",
            }),
        ]);
    }
    table
}
