//! Numbers as people read them: as many digits as the interval supports, thousands
//! set off, powers of ten written out, and a dash where a number is not defined.

use analysis::Interval;

/// What stands where a number is not defined.
pub const ABSENT: &str = "–";

/// Most decimals that are ever shown.
const MOST_DECIMALS: i32 = 12;

/// The number with so many significant digits; trailing zeros are kept off.
pub fn significant(value: f64, digits: i32) -> String {
    if !value.is_finite() {
        return ABSENT.into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let order = exponent(value);
    if !(-4..7).contains(&order) {
        let mantissa = value / 10_f64.powi(order);
        let text = trimmed(&fixed(mantissa, digits - 1));
        // 9.996 with three digits rounds to 10: one power more.
        let (text, order) = match text.as_str() {
            "10" => ("1".to_string(), order + 1),
            "−10" => ("−1".to_string(), order + 1),
            _ => (text, order),
        };
        return match text.as_str() {
            "1" => format!("10{}", superscript(order)),
            _ => format!("{text}×10{}", superscript(order)),
        };
    }
    trimmed(&fixed(value, digits - 1 - order))
}

/// The number with so many decimals, thousands set off by commas from 10,000 on;
/// negative decimals round to tens, hundreds, ….
pub fn fixed(value: f64, decimals: i32) -> String {
    if !value.is_finite() {
        return ABSENT.into();
    }
    let unit = 10_f64.powi((-decimals).max(0));
    let rounded = (value / unit).round() * unit;
    let value = if decimals < 0 { rounded } else { value };
    let text = format!(
        "{:.*}",
        decimals.clamp(0, MOST_DECIMALS) as usize,
        value.abs()
    );
    let zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let sign = if value < 0.0 && !zero { "−" } else { "" };
    format!("{sign}{}", grouped(&text))
}

/// A count with thousands set off.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

fn grouped(text: &str) -> String {
    let (whole, rest) = match text.find('.') {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    if whole.len() < 5 {
        return text.into();
    }
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// A shown number of four digits with its thousands set off, as longer ones have them.
pub fn set_off(text: &str) -> String {
    let digits = |c: char| c.is_ascii_digit();
    let from = text.find(digits).unwrap_or(0);
    let (sign, number) = text.split_at(from);
    let whole = number.find(|c: char| !digits(c)).unwrap_or(number.len());
    if whole != 4 {
        return text.into();
    }
    format!("{sign}{},{}", &number[..1], &number[1..])
}

fn trimmed(text: &str) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        text.into()
    }
}

/// ⌊log₁₀|x|⌋.
pub fn exponent(value: f64) -> i32 {
    let order = value.abs().log10().floor();
    if order.is_finite() { order as i32 } else { 0 }
}

/// A whole number in superscript digits.
pub fn superscript(number: i32) -> String {
    let raised = |c: char| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        other => {
            char::from_u32('⁰' as u32 + (other as u32).wrapping_sub('0' as u32)).unwrap_or(' ')
        }
    };
    number.to_string().chars().map(raised).collect()
}

/// Decimals that show two digits of an interval's width, and at least `digits`
/// significant ones of a value where the interval has none.
fn decimals_of(value: f64, interval: Option<Interval<f64>>, digits: i32) -> i32 {
    let width = interval.map_or(0.0, |i| i.high - i.low);
    let from_width = 1 - exponent(width);
    let from_value = digits - 1 - exponent(value);
    let decimals = if width > 0.0 && width.is_finite() {
        from_width.min(from_value + 2)
    } else {
        from_value
    };
    decimals.clamp(0, 8)
}

/// The value alone, with the digits that its interval's width supports.
pub fn beside_interval(value: f64, interval: Interval<f64>) -> String {
    fixed(value, decimals_of(value, Some(interval), 3))
}

/// `1.53 [1.40, 1.66]`, each end with the digits that the interval's width supports.
pub fn with_interval(value: f64, interval: Option<Interval<f64>>) -> String {
    let decimals = decimals_of(value, interval, 3);
    match interval {
        Some(ends) => format!("{} {}", fixed(value, decimals), ends_at(ends, decimals)),
        None => fixed(value, decimals),
    }
}

/// The same, where it is told whether the interval holds any of these values: an end that would be
/// rounded to the wrong side of one has more digits, as in `0.71 [0.23, 0.997]` about 1.
pub fn with_interval_about(value: f64, interval: Option<Interval<f64>>, told: &[f64]) -> String {
    let decimals = decimals_of(value, interval, 3);
    let Some(ends) = interval else {
        return fixed(value, decimals);
    };
    let low = end_about(ends.low, decimals, |end| {
        told.iter().map(|x| end <= *x).collect()
    });
    let high = end_about(ends.high, decimals, |end| {
        told.iter().map(|x| end >= *x).collect()
    });
    format!("{} [{low}, {high}]", fixed(value, decimals))
}

/// An end with at least so many decimals, such that what is shown holds what the end itself does.
fn end_about(end: f64, least: i32, holds: impl Fn(f64) -> Vec<bool>) -> String {
    let shown = |decimals: &i32| {
        let text = format!("{end:.*}", (*decimals).max(0) as usize);
        text.parse().unwrap_or(end)
    };
    let agrees = |decimals: &i32| holds(shown(decimals)) == holds(end);
    let decimals = (least..=MOST_DECIMALS).find(agrees);
    fixed(end, decimals.unwrap_or(MOST_DECIMALS))
}

/// `[1.40, 1.66]`.
pub fn interval(ends: Interval<f64>) -> String {
    ends_at(
        ends,
        decimals_of(0.5 * (ends.low + ends.high), Some(ends), 3),
    )
}

fn ends_at(ends: Interval<f64>, decimals: i32) -> String {
    format!(
        "[{}, {}]",
        fixed(ends.low, decimals),
        fixed(ends.high, decimals)
    )
}

/// A share as a percentage without its sign: `97.98`.
pub fn percent(share: f64) -> String {
    fixed(100.0 * share, 2)
}

/// A duration: `41 s`, `12 min`, `3.4 h`.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() => ABSENT.into(),
        s if s < 10.0 => format!("{} s", significant(s, 2)),
        s if s < 100.0 => format!("{} s", fixed(s, 0)),
        s if s < 6000.0 => format!("{} min", fixed(s / 60.0, 0)),
        s => format!("{} h", significant(s / 3600.0, 3)),
    }
}

/// A power of a thousand that numbers are shown in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Magnitude {
    exponent: i32,
}

impl Magnitude {
    /// The power that suits numbers up to `largest`: none between 0.001 and 2000.
    pub fn of(largest: f64) -> Self {
        let order = exponent(largest);
        let exponent = match largest.abs() {
            size if !size.is_finite() || size == 0.0 => 0,
            size if (1e-3..2e3).contains(&size) => 0,
            size if (1.0..1e6).contains(&size) => 3,
            _ => order.div_euclid(3) * 3,
        };
        Self { exponent }
    }

    /// The number in this magnitude.
    pub fn scaled(self, value: f64) -> f64 {
        value / 10_f64.powi(self.exponent)
    }

    /// The interval in this magnitude.
    pub fn scaled_interval(self, ends: Interval<f64>) -> Interval<f64> {
        Interval {
            low: self.scaled(ends.low),
            high: self.scaled(ends.high),
        }
    }

    /// The unit with the power in it: `10³/[loss]` for `1/[loss]`.
    pub fn unit(self, unit: &str) -> String {
        if self.exponent == 0 {
            return unit.into();
        }
        let power = format!("10{}", superscript(self.exponent));
        match unit.strip_prefix('1') {
            Some(rest) if rest.starts_with('/') => power + rest,
            _ if unit.is_empty() => power,
            _ => format!("{power} {unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn significant_digits_by_hand() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (0.02, "0.02"),
            (2.345_6, "2.35"),
            (-0.001_25, "−0.00125"),
            (343_750.0, "344,000"),
            (55_000.0, "55,000"),
            (1500.0, "1500"),
            (2.5e7, "2.5×10⁷"),
            (9.999e7, "10⁸"),
            (1e-6, "10⁻⁶"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ];
        for (value, expected) in cases {
            assert_eq!(significant(value, 3), expected);
        }
    }

    #[test]
    fn intervals_set_the_digits() {
        let ends = Interval::between(1.3987, 1.6611);
        // The width is 0.26: two decimals.
        assert_eq!(with_interval(1.5268, Some(ends)), "1.53 [1.40, 1.66]");
        assert_eq!(interval(ends), "[1.40, 1.66]");
        let point = Interval::between(2.5, 2.5);
        assert_eq!(with_interval(2.5, Some(point)), "2.50 [2.50, 2.50]");
        assert_eq!(with_interval(2.5, None), "2.50");
    }

    #[test]
    fn a_printed_interval_holds_what_the_interval_holds() {
        let about = |low, high, told: &[f64]| {
            with_interval_about(0.71, Some(Interval::between(low, high)), told)
        };
        let both = [0.0, 1.0];
        // 0.9973 does not reach 1, and must not look as if it did.
        assert_eq!(about(0.231, 0.9973, &both), "0.71 [0.23, 0.997]");
        assert_eq!(about(0.231, 0.999_96, &both), "0.71 [0.23, 0.99996]");
        assert_eq!(about(0.0031, 0.82, &both), "0.71 [0.003, 0.82]");
        assert_eq!(about(-0.95, -0.004, &both), "0.71 [−0.95, −0.004]");
        assert_eq!(about(-1.62, -1.004, &[0.0, -1.0]), "0.71 [−1.62, −1.004]");
        // Ends that are rounded outwards, or are not near, are as ever.
        assert_eq!(about(0.9996, 1.3, &both), "0.71 [1.00, 1.30]");
        assert_eq!(about(0.231, 1.0, &both), "0.71 [0.23, 1.00]");
        assert_eq!(about(0.231, 0.9973, &[]), "0.71 [0.23, 1.00]");
    }

    #[test]
    fn magnitudes_by_hand() {
        assert_eq!(Magnitude::of(1900.0).unit("1/[loss]"), "1/[loss]");
        assert_eq!(Magnitude::of(34_000.0).unit("1/[loss]"), "10³/[loss]");
        assert_eq!(Magnitude::of(3.1e6).unit("1/[loss]"), "10⁶/[loss]");
        assert_eq!(Magnitude::of(3.1e-5).unit(""), "10⁻⁶");
        assert_eq!(Magnitude::of(3.1e6).scaled(3.1e6), 3.1);
        assert_eq!(Magnitude::of(0.0), Magnitude::default());
    }

    #[test]
    fn durations_and_counts() {
        assert_eq!(duration(7.25), "7.2 s");
        assert_eq!(duration(600.0), "10 min");
        assert_eq!(duration(12_240.0), "3.4 h");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(1234), "1234");
        assert_eq!(superscript(-12), "⁻¹²");
        assert_eq!(set_off("−5000.5"), "−5,000.5");
        assert_eq!(set_off("10,000"), "10,000");
        assert_eq!(set_off("500"), "500");
    }
}
