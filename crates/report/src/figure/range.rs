//! Which part of each axis is shown.

use super::{AxisSpec, Extent, Figure, Mark, Scale};
use analysis::Interval;

/// The two shown ranges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranges {
    /// Along x.
    pub x: Interval<f64>,
    /// Along y.
    pub y: Interval<f64>,
}

impl Ranges {
    /// The ranges that show a figure.
    pub fn of(figure: &Figure) -> Self {
        let marks: Vec<&Mark> = figure.marks().map(|(_, mark)| mark).collect();
        let mut xs: Vec<f64> = marks.iter().map(|mark| mark.x).collect();
        let mut ys: Vec<f64> = marks.iter().map(|mark| mark.y).collect();
        let means = ys.clone();
        for mark in &marks {
            xs.extend(mark.x_bar.iter().flat_map(|i| [i.low, i.high]));
            xs.extend(mark.x_whisker.iter().flat_map(|i| [i.low, i.high]));
            ys.extend(mark.y_bar.iter().flat_map(|i| [i.low, i.high]));
            ys.extend(mark.y_whisker.iter().flat_map(|i| [i.low, i.high]));
        }
        xs.extend(figure.spans.iter().flat_map(|s| [s.ends.low, s.ends.high]));
        for fit in &figure.fits {
            let slope = fit.slopes.map_or(fit.slope, |slopes| slopes.high);
            ys.push(slope * fit.beyond);
        }
        if figure.diagonal {
            let both: Vec<f64> = xs.iter().chain(&ys).copied().collect();
            let range = shown(&figure.x, &both, &both);
            return Self { x: range, y: range };
        }
        Self {
            x: shown(&figure.x, &xs, &xs),
            y: shown(&figure.y, &ys, &means),
        }
    }
}

fn shown(axis: &AxisSpec, values: &[f64], means: &[f64]) -> Interval<f64> {
    let usable = |value: &f64| value.is_finite() && (axis.scale == Scale::Linear || *value > 0.0);
    let all: Vec<f64> = values.iter().copied().filter(usable).collect();
    let data = match axis.extent {
        Extent::Fixed(ends) => return widened(axis.scale, ends, 0.03),
        Extent::Upper => upper(&all, means),
        Extent::Data | Extent::FromZero => ends(&all),
    };
    if axis.extent == Extent::FromZero {
        let high = data.high.max(0.0);
        return Interval {
            low: data.low.min(0.0),
            high: if high > 0.0 { 1.06 * high } else { 1.0 },
        };
    }
    widened(axis.scale, data, 0.06)
}

fn ends(values: &[f64]) -> Interval<f64> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low <= high {
        Interval { low, high }
    } else {
        Interval {
            low: 1.0,
            high: 1.0,
        }
    }
}

/// The part of accuracies that tells the curves apart: where some lie far below the
/// rest, the range ends 1.6 times as far below the best as the 30 % quantile does.
fn upper(all: &[f64], means: &[f64]) -> Interval<f64> {
    let full = ends(all);
    let mut sorted: Vec<f64> = means.iter().copied().filter(|m| m.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let (Some(worst), Some(best), Some(quantile)) = (
        sorted.first(),
        sorted.last(),
        sorted.get(sorted.len() * 3 / 10),
    ) else {
        return full;
    };
    let cut = best - 1.6 * (best - quantile);
    let apart = best - worst > 2.5 * (best - cut);
    if sorted.len() < 6 || !apart || cut >= *best {
        return full;
    }
    Interval {
        low: cut,
        high: full.high,
    }
}

/// With a margin on both sides; a single value gets room around it.
fn widened(scale: Scale, ends: Interval<f64>, share: f64) -> Interval<f64> {
    match scale {
        Scale::Linear => {
            let width = ends.high - ends.low;
            let margin = if width > 0.0 {
                share * width
            } else {
                (0.1 * ends.high.abs()).max(0.5)
            };
            Interval {
                low: ends.low - margin,
                high: ends.high + margin,
            }
        }
        Scale::Log => {
            let ratio = ends.high / ends.low;
            let margin = if ratio > 1.0 { ratio.powf(share) } else { 2.0 };
            Interval {
                low: ends.low / margin,
                high: ends.high * margin,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_values_do_not_squeeze_the_rest() {
        // Best 98, 30 % quantile (place 3 of 10) 97: the range ends at 98 − 1.6 = 96.4,
        // and 50 lies 48 > 2.5 · 1.6 below the best.
        let means = [50.0, 60.0, 96.5, 97.0, 97.2, 97.4, 97.5, 97.7, 97.9, 98.0];
        let range = upper(&means, &means);
        assert!((range.low - 96.4).abs() < 1e-9 && range.high == 98.0);
        // Without them all is shown.
        assert_eq!(upper(&means[2..], &means[2..]).low, 96.5);
    }

    #[test]
    fn a_single_value_gets_room() {
        let log = widened(
            Scale::Log,
            Interval {
                low: 8.0,
                high: 8.0,
            },
            0.06,
        );
        assert_eq!((log.low, log.high), (4.0, 16.0));
        let none = ends(&[]);
        assert_eq!((none.low, none.high), (1.0, 1.0));
    }
}
