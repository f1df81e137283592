//! How raw values become inputs: a range to [−0.5, 0.5], or each channel to zero
//! mean and unit variance, both settled by the training part alone.

use super::{Normalization, Values};
use spec::task::Scaling;

/// Training values that are all the same have no range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Constant(pub f32);

/// The rule for the user's own data; `learned` values, from the first, are the training part.
pub(super) fn normalization(
    scaling: Scaling,
    channels: usize,
    values: &Values,
    learned: usize,
) -> Result<Normalization, Constant> {
    match (scaling, values) {
        (Scaling::HalfRange, Values::Bytes(_)) => Ok(half_range_of_bytes(channels)),
        (Scaling::HalfRange, Values::Floats(floats)) => {
            half_range_of_floats(channels, &floats[..learned])
        }
        (Scaling::Standardized, _) => Ok(standardize(channels, values, learned)),
        (Scaling::AsIs, _) => Ok(Normalization {
            offset: vec![0.0; channels],
            factor: vec![1.0; channels],
        }),
    }
}

/// 0..255 to [−0.5, 0.5].
pub(super) fn half_range_of_bytes(channels: usize) -> Normalization {
    Normalization {
        offset: vec![127.5; channels],
        factor: vec![1.0 / 255.0; channels],
    }
}

/// The least and the largest training value to −0.5 and 0.5, for all channels alike.
fn half_range_of_floats(channels: usize, learned: &[f32]) -> Result<Normalization, Constant> {
    let least = learned.iter().copied().fold(f32::INFINITY, f32::min);
    let largest = learned.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (low, high) = (f64::from(least), f64::from(largest));
    let factor = (1.0 / (high - low)) as f32;
    if !factor.is_finite() {
        return Err(Constant(least));
    }
    Ok(Normalization {
        offset: vec![((low + high) / 2.0) as f32; channels],
        factor: vec![factor; channels],
    })
}

/// Each channel c to (v − mean_c) / σ_c with σ_c² = Σ(v − mean_c)² / n over the n
/// training values of c. A channel that is the same in all of them becomes zero
/// everywhere: nothing can be learned from it, and in the test part it would
/// only be a value of arbitrary size.
pub(super) fn standardize(channels: usize, values: &Values, learned: usize) -> Normalization {
    let moments = match values {
        Values::Bytes(bytes) => moments_of_bytes(channels, &bytes[..learned]),
        Values::Floats(floats) => moments_of_floats(channels, &floats[..learned]),
    };
    Normalization {
        offset: moments.iter().map(|channel| channel.mean as f32).collect(),
        factor: moments.iter().map(Moments::factor).collect(),
    }
}

/// Of one channel.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    mean: f64,
    variance: f64,
}

impl Moments {
    /// 1/σ, or 0 where all values are the same but for rounding.
    fn factor(&self) -> f32 {
        let deviation = self.variance.sqrt();
        let factor = (1.0 / deviation) as f32;
        let rounding = f64::from(f32::EPSILON) * self.mean.abs();
        if deviation > rounding && factor.is_finite() {
            factor
        } else {
            0.0
        }
    }
}

/// Counts how often each channel has each byte, which needs one pass over the values and is exact.
fn moments_of_bytes(channels: usize, learned: &[u8]) -> Vec<Moments> {
    let mut counts = vec![[0_u64; 256]; channels];
    for pixel in learned.chunks_exact(channels) {
        for (count, value) in counts.iter_mut().zip(pixel) {
            count[usize::from(*value)] += 1;
        }
    }
    let n = (learned.len() / channels).max(1) as f64;
    let of_channel = |count: &[u64; 256]| {
        let average = |f: &dyn Fn(f64) -> f64| {
            let terms = count.iter().enumerate();
            terms
                .map(|(value, times)| *times as f64 * f(value as f64))
                .sum::<f64>()
                / n
        };
        let mean = average(&|value| value);
        let variance = average(&|value| (value - mean).powi(2));
        Moments { mean, variance }
    };
    counts.iter().map(of_channel).collect()
}

fn moments_of_floats(channels: usize, learned: &[f32]) -> Vec<Moments> {
    let n = (learned.len() / channels).max(1) as f64;
    let mut moments = vec![Moments::default(); channels];
    for pixel in learned.chunks_exact(channels) {
        for (channel, value) in moments.iter_mut().zip(pixel) {
            channel.mean += f64::from(*value) / n;
        }
    }
    for pixel in learned.chunks_exact(channels) {
        for (channel, value) in moments.iter_mut().zip(pixel) {
            channel.variance += (f64::from(*value) - channel.mean).powi(2) / n;
        }
    }
    moments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standardizing_by_hand() {
        // Channel 0 learns 1, 3: mean 2, variance 1. Channel 1 learns 10, 10. The rest is not learned.
        let values = Values::Bytes(vec![1, 10, 3, 10, 200, 200]);
        let rule = standardize(2, &values, 4);
        assert_eq!(rule.offset, [2.0, 10.0]);
        assert_eq!(rule.factor, [1.0, 0.0]);
        let floats = Values::Floats(vec![1.0, 10.0, 3.0, 10.0, 200.0, 200.0]);
        assert_eq!(standardize(2, &floats, 4), rule);
    }

    #[test]
    fn a_channel_that_is_constant_but_for_rounding_becomes_zero() {
        let rule = standardize(1, &Values::Floats(vec![0.1; 1_001]), 1_001);
        assert_eq!(rule.factor, [0.0]);
    }

    #[test]
    fn half_range_by_hand() {
        let values = Values::Floats(vec![-1.0, 3.0, 1.0, 50.0]);
        let rule = normalization(Scaling::HalfRange, 1, &values, 3).unwrap();
        assert_eq!((rule.offset[0], rule.factor[0]), (1.0, 0.25));
        let same = Values::Floats(vec![2.0, 2.0, 3.0]);
        let refused = normalization(Scaling::HalfRange, 1, &same, 2);
        assert_eq!(refused, Err(Constant(2.0)));
    }
}
