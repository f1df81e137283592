//! Where ticks stand and what they say.
//!
//! A linear axis has steps of 1, 2, 2.5 or 5 times a power of ten. A logarithmic one
//! has the richest of several sets whose labels keep apart: all digits, 1-2-3-5, 1-2-5,
//! 1-3, powers of ten; or powers of two for batch sizes.

use crate::figure::{Scale, TickStyle};
use crate::number::{self, exponent, fixed, superscript};
use analysis::Interval;

/// A tick.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Where.
    pub value: f64,
    /// What it says.
    pub label: String,
}

/// The ticks of an axis: the richest set that `fits`.
pub fn ticks(
    range: Interval<f64>,
    scale: Scale,
    style: TickStyle,
    fits: impl Fn(&[Tick]) -> bool,
) -> Vec<Tick> {
    if scale == Scale::Linear {
        return linear(range, fits);
    }
    let candidates = match style {
        TickStyle::PowersOfTwo => binary(range),
        TickStyle::Decimal => decimal(range),
    };
    let chosen = candidates
        .into_iter()
        .map(labelled)
        .find(|set| set.len() >= 2 && fits(set));
    // Less than one step of the coarsest set: the axis is as good as linear.
    chosen.unwrap_or_else(|| linear(range, fits))
}

fn labelled(values: Vec<f64>) -> Vec<Tick> {
    let plain = values.iter().all(|v| (1e-3..1e5).contains(v));
    let label = |value: f64| {
        if plain {
            return number::significant(value, 4);
        }
        let order = exponent(value * (1.0 + 1e-9));
        let digit = (value / 10_f64.powi(order)).round();
        if digit == 1.0 {
            format!("10{}", superscript(order))
        } else {
            format!("{digit}×10{}", superscript(order))
        }
    };
    let tick = |value: f64| Tick {
        value,
        label: label(value),
    };
    in_one_style(values.into_iter().map(tick).collect())
}

/// Sets thousands off in all labels where one has them set off: 5,000 beside 10,000.
fn in_one_style(mut ticks: Vec<Tick>) -> Vec<Tick> {
    if ticks.iter().any(|tick| tick.label.contains(',')) {
        for tick in &mut ticks {
            tick.label = number::set_off(&tick.label);
        }
    }
    ticks
}

fn inside(range: Interval<f64>, value: f64) -> bool {
    let slack = 1e-9 * value.abs();
    range.low - slack <= value && value <= range.high + slack
}

/// Powers of two, every one, every second, …; with halves between where they are few.
fn binary(range: Interval<f64>) -> Vec<Vec<f64>> {
    let first = range.low.log2().floor() as i32;
    let last = range.high.log2().ceil() as i32;
    let powers = |stride: usize| -> Vec<f64> {
        (first..=last)
            .filter(|k| k.rem_euclid(stride as i32) == 0)
            .map(|k| 2_f64.powi(k))
            .filter(|value| inside(range, *value))
            .collect()
    };
    let mut sets = Vec::new();
    if last - first <= 4 {
        let finer = (first..=last).flat_map(|k| [2_f64.powi(k), 1.5 * 2_f64.powi(k)]);
        sets.push(finer.filter(|value| inside(range, *value)).collect());
    }
    sets.extend((1..8).map(powers));
    sets
}

fn decimal(range: Interval<f64>) -> Vec<Vec<f64>> {
    let first = range.low.log10().floor() as i32;
    let last = range.high.log10().ceil() as i32;
    let set = |digits: &[f64], stride: i32| -> Vec<f64> {
        (first..=last)
            .filter(|k| k.rem_euclid(stride) == 0)
            .flat_map(|k| digits.iter().map(move |digit| digit * 10_f64.powi(k)))
            .filter(|value| inside(range, *value))
            .collect()
    };
    let mut sets = vec![
        set(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], 1),
        set(&[1.0, 2.0, 3.0, 5.0], 1),
        set(&[1.0, 2.0, 5.0], 1),
        set(&[1.0, 3.0], 1),
    ];
    sets.extend((1..40).map(|stride| set(&[1.0], stride)));
    // More than three digits crowd more than a decade and a half, whatever the room.
    if range.high / range.low > 30.0 {
        sets.drain(..2);
    }
    sets
}

/// Unlabelled ticks between the decades of a logarithmic axis.
pub fn minor(range: Interval<f64>, scale: Scale, style: TickStyle) -> Vec<f64> {
    let decades = (range.high / range.low).log10();
    if scale == Scale::Linear || style == TickStyle::PowersOfTwo || decades > 6.0 {
        return Vec::new();
    }
    let (first, last) = (
        range.low.log10().floor() as i32,
        range.high.log10().ceil() as i32,
    );
    (first..=last)
        .flat_map(|k| (2..10).map(move |digit| f64::from(digit) * 10_f64.powi(k)))
        .filter(|value| inside(range, *value))
        .collect()
}

fn linear(range: Interval<f64>, fits: impl Fn(&[Tick]) -> bool) -> Vec<Tick> {
    let width = range.high - range.low;
    if width.is_nan() || width <= 0.0 || width.is_infinite() {
        return Vec::new();
    }
    let smallest = exponent(width) - 1;
    let steps = (smallest..smallest + 3).flat_map(|k| {
        [(1.0, 0), (2.0, 0), (2.5, 1), (5.0, 0)]
            .map(|(digit, extra)| (digit * 10_f64.powi(k), (extra - k).max(0)))
    });
    let mut coarsest = Vec::new();
    for (step, decimals) in steps {
        let set = multiples(range, step, decimals);
        if set.len() < 2 {
            break;
        }
        if set.len() <= 9 && fits(&set) {
            return set;
        }
        coarsest = set;
    }
    coarsest.truncate(10);
    coarsest
}

fn multiples(range: Interval<f64>, step: f64, decimals: i32) -> Vec<Tick> {
    let first = (range.low / step - 1e-9).ceil();
    let count = ((range.high / step + 1e-9).floor() - first).clamp(-1.0, 500.0) as i64;
    let all = (0..=count)
        .map(|at| (first + at as f64) * step)
        .filter(|value| inside(range, *value))
        .map(|value| Tick {
            value,
            label: fixed(value, decimals),
        });
    in_one_style(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64, scale: Scale, style: TickStyle, most: usize) -> String {
        let all = ticks(Interval { low, high }, scale, style, |set| {
            set.len() <= most
        });
        let each: Vec<String> = all.into_iter().map(|tick| tick.label).collect();
        each.join(" ")
    }

    #[test]
    fn linear_ticks() {
        let of = |low, high| labels(low, high, Scale::Linear, TickStyle::Decimal, 6);
        assert_eq!(of(0.0, 1060.0), "0 200 400 600 800 1000");
        assert_eq!(of(96.3, 98.6), "96.5 97.0 97.5 98.0 98.5");
        assert_eq!(of(-0.1, 0.1), "−0.10 −0.05 0.00 0.05 0.10");
        assert_eq!(of(1.0, 1.0), "");
        assert_eq!(of(0.0, 0.0), "");
    }

    #[test]
    fn thousands_of_one_axis_look_alike() {
        let of = |low, high, scale| labels(low, high, scale, TickStyle::Decimal, 6);
        assert_eq!(
            of(0.0, 10_400.0, Scale::Linear),
            "0 2,000 4,000 6,000 8,000 10,000"
        );
        assert_eq!(
            of(900.0, 21_000.0, Scale::Log),
            "1,000 2,000 3,000 5,000 10,000 20,000"
        );
    }

    #[test]
    fn batch_sizes_have_powers_of_two() {
        let of = |low, high, most| labels(low, high, Scale::Log, TickStyle::PowersOfTwo, most);
        assert_eq!(of(3.8, 140.0, 9), "4 8 16 32 64 128");
        assert_eq!(of(1.8, 9000.0, 7), "4 16 64 256 1024 4096");
        assert_eq!(of(7.0, 17.0, 7), "8 12 16");
        assert_eq!(of(45.0, 410.0, 7), "48 64 96 128 192 256 384");
        assert_eq!(of(45.0, 410.0, 6), "64 128 256");
    }

    #[test]
    fn decades_have_one_two_five() {
        let of = |low, high, most| labels(low, high, Scale::Log, TickStyle::Decimal, most);
        assert_eq!(of(0.9, 110.0, 9), "1 2 5 10 20 50 100");
        assert_eq!(of(900.0, 1.1e7, 6), "10³ 10⁴ 10⁵ 10⁶ 10⁷");
        assert_eq!(of(2e5, 9e5, 4), "2×10⁵ 3×10⁵ 5×10⁵");
        // Less than a digit: linear steps.
        assert_eq!(of(1.1, 1.4, 4), "1.1 1.2 1.3 1.4");
    }
}
