//! What the values of flags may be. What passes here must not break anything later: a number that
//! no clock or memory can hold is refused by name.

use engine::kernels::Isa;
use spec::{BatchSize, LearningRate, Override, Width};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Seconds that are longer than any study, and short enough to add to a clock.
const LONGEST: f64 = 1e9;

/// More than any machine has cores.
const MOST_THREADS: usize = 4096;

/// A whole number within bounds, as the parser of a flag.
pub fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let digits = text.strip_prefix('+').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(at_least(*range.start()));
        }
        // What 64 bits cannot hold is above every bound.
        let value = digits.parse().unwrap_or(u64::MAX);
        let too_large = || format!("must be at most {}", range.end());
        match value {
            value if value < *range.start() => Err(at_least(*range.start())),
            value if value > *range.end() || digits.parse() != Ok(value) => Err(too_large()),
            value => T::try_from(value).map_err(|_| too_large()),
        }
    }
}

fn at_least(least: u64) -> String {
    format!("must be a whole number of at least {least}")
}

/// A count of at least 1.
pub fn count(text: &str) -> Result<u32, String> {
    whole(1..=u32::MAX.into())(text)
}

pub fn width(text: &str) -> Result<Width, String> {
    Width::new(count(text)?).map_err(|error| error.to_string())
}

pub fn batch_size(text: &str) -> Result<BatchSize, String> {
    BatchSize::new(count(text)?).map_err(|error| error.to_string())
}

pub fn learning_rate(text: &str) -> Result<LearningRate, String> {
    LearningRate::new(positive(text)?).map_err(|error| error.to_string())
}

pub fn address(text: &str) -> Result<IpAddr, String> {
    let example = "must be an IP address, such as 127.0.0.1 or 0.0.0.0";
    text.parse().map_err(|_| example.into())
}

pub fn instructions(text: &str) -> Result<Isa, String> {
    let sets = Isa::available();
    let found = sets.iter().copied().find(|set| set.to_string() == text);
    found.ok_or_else(|| {
        let names: Vec<String> = sets.iter().map(ToString::to_string).collect();
        format!("this processor has {}", names.join(", "))
    })
}

pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value == f64::INFINITY => Err("must be a finite number".into()),
        Ok(value) if value > 0.0 => Ok(value),
        _ => Err("must be a number above 0".into()),
    }
}

/// A share of the training time.
pub fn share(text: &str) -> Result<f64, String> {
    let value = positive(text).ok().filter(|value| *value <= 1.0);
    value.ok_or_else(|| "must be a number above 0 and at most 1".into())
}

pub fn seconds(text: &str) -> Result<f64, String> {
    match positive(text)? {
        value if value <= LONGEST => Ok(value),
        _ => Err(format!("must be at most {LONGEST} seconds")),
    }
}

pub fn threads(text: &str) -> Result<usize, String> {
    match whole(1..=u64::MAX)(text)? {
        threads if threads <= MOST_THREADS => Ok(threads),
        _ => Err(format!("at most {MOST_THREADS} runs can train at once")),
    }
}

pub fn override_(text: &str) -> Result<Override, String> {
    Override::parse(text).ok_or_else(|| "must be KEY=VALUE, e.g. search.batch_size=16".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_cannot_be_are_told_in_plain_words() {
        let least = "must be a whole number of at least 1";
        for text in ["1.5", "-5", "0", "", "+", "five", "1e3"] {
            assert_eq!(count(text), Err(least.into()), "{text}");
        }
        for text in ["4294967296", "99999999999999999999"] {
            assert_eq!(
                count(text),
                Err("must be at most 4294967295".into()),
                "{text}"
            );
        }
        assert_eq!(count("+7"), Ok(7));
        let seed = whole::<u64>(0..=u64::MAX);
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        let largest = "must be at most 18446744073709551615";
        assert_eq!(seed("18446744073709551616"), Err(largest.into()));
        let [number, finite] = ["must be a number above 0", "must be a finite number"];
        assert_eq!(positive("abc"), Err(number.into()));
        assert_eq!(positive("-1"), Err(number.into()));
        assert_eq!(positive("nan"), Err(number.into()));
        assert_eq!(positive("inf"), Err(finite.into()));
        assert!(share("1").is_ok() && share("1.1").is_err() && share("abc").is_err());
    }
}
