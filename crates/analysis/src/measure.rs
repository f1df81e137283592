//! What an optimum is measured in, and the unit of each measure.
//!
//! Without batch norm it is the normalized noise scale ḡ. With batch norm ḡ is not
//! defined (gradients mix the examples of a batch), and the paper reports the optimal
//! 1/B or ε instead (section 3.1); in the standard scheme, w/B (section E of its supplement).
//! Each of these is what the law predicts to be proportional to w.

use serde::Serialize;
use spec::{
    BatchSize, LearningRate, NoiseScale, NormalizedLearningRate, NormalizedNoiseScale, Scheme,
    Setting, Width,
};

/// What a scan varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// B, at a fixed ε.
    BatchSize,
    /// ε, at a fixed B.
    LearningRate,
}

/// What a scan holds fixed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fixed {
    /// ε.
    LearningRate(LearningRate),
    /// B.
    BatchSize(BatchSize),
}

/// The quantity that an optimum is reported in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// ḡ, in 1/\[loss\].
    NormalizedNoise,
    /// 1/B, without unit.
    InverseBatchSize,
    /// w/B, without unit.
    WidthOverBatchSize,
    /// ε, in \[weight\]²/\[loss\].
    LearningRate,
    /// w·ε, in \[weight\]²/\[loss\].
    WidthTimesLearningRate,
}

/// Where in a study a measure is taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// w.
    pub width: Width,
    /// B.
    pub batch_size: BatchSize,
    /// ε.
    pub learning_rate: LearningRate,
}

impl Measure {
    /// The measure that a scan of this axis is reported in.
    pub fn of(setting: &Setting, axis: Axis) -> Self {
        if !setting.has_batch_norm() {
            return Self::NormalizedNoise;
        }
        match (axis, setting.scheme) {
            (Axis::BatchSize, Scheme::Ntk) => Self::InverseBatchSize,
            (Axis::BatchSize, Scheme::Standard) => Self::WidthOverBatchSize,
            (Axis::LearningRate, Scheme::Ntk) => Self::LearningRate,
            (Axis::LearningRate, Scheme::Standard) => Self::WidthTimesLearningRate,
        }
    }

    /// The measure without the width in it, which is given beside w/B and w·ε.
    pub fn beside(self) -> Option<Self> {
        match self {
            Self::WidthOverBatchSize => Some(Self::InverseBatchSize),
            Self::WidthTimesLearningRate => Some(Self::LearningRate),
            Self::NormalizedNoise | Self::InverseBatchSize | Self::LearningRate => None,
        }
    }

    /// Its value at a place.
    pub fn at(self, setting: &Setting, place: Place) -> f64 {
        let width = f64::from(place.width.get());
        let batch = f64::from(place.batch_size.get());
        let rate = place.learning_rate.get();
        match self {
            Self::NormalizedNoise => normalized_noise(setting, place).get(),
            Self::InverseBatchSize => 1.0 / batch,
            Self::WidthOverBatchSize => width / batch,
            Self::LearningRate => rate,
            Self::WidthTimesLearningRate => width * rate,
        }
    }

    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::NormalizedNoise => "ḡ",
            Self::InverseBatchSize => "1/B",
            Self::WidthOverBatchSize => "w/B",
            Self::LearningRate => "ε",
            Self::WidthTimesLearningRate => "w·ε",
        }
    }

    /// Its unit; empty for a pure number.
    pub fn unit(self) -> &'static str {
        match self {
            Self::NormalizedNoise => "1/[loss]",
            Self::InverseBatchSize | Self::WidthOverBatchSize => "",
            Self::LearningRate | Self::WidthTimesLearningRate => "[weight]²/[loss]",
        }
    }
}

/// Two ends, low ≤ high, both included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval<T> {
    /// The smaller end.
    pub low: T,
    /// The larger end.
    pub high: T,
}

impl<T: PartialOrd> Interval<T> {
    /// The interval between two ends, in either order.
    pub fn between(one: T, other: T) -> Self {
        if other < one {
            Self {
                low: other,
                high: one,
            }
        } else {
            Self {
                low: one,
                high: other,
            }
        }
    }

    /// Whether it holds a value.
    pub fn contains(&self, value: &T) -> bool {
        self.low <= *value && *value <= self.high
    }

    /// Whether the two have a value in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// A value with the ends of its best interval as error bar.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// What is measured; gives the unit.
    pub measure: Measure,
    /// Mean of the two ends.
    pub value: f64,
    /// The error bar.
    pub bar: Interval<f64>,
}

impl Estimate {
    /// The mean of two ends, which are its error bar.
    pub fn between(measure: Measure, one: f64, other: f64) -> Self {
        Self {
            measure,
            value: 0.5 * (one + other),
            bar: Interval::between(one, other),
        }
    }
}

/// ḡ at a place. Not meaningful with batch norm.
pub fn normalized_noise(setting: &Setting, place: Place) -> NormalizedNoiseScale {
    let noise = NoiseScale::of(
        place.learning_rate,
        setting.optimizer.momentum,
        place.batch_size,
        setting.training_examples(),
    );
    setting
        .scheme
        .normalized_noise(noise, setting.weight_scale, place.width)
}

/// ε̄ at a place.
pub fn normalized_rate(setting: &Setting, place: Place) -> NormalizedLearningRate {
    setting
        .scheme
        .normalized_learning_rate(place.learning_rate, setting.weight_scale, place.width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_order_their_ends() {
        // Ends 30 and 10: mean 20, bar [10, 30].
        let estimate = Estimate::between(Measure::NormalizedNoise, 30.0, 10.0);
        assert_eq!(estimate.value, 20.0);
        assert_eq!((estimate.bar.low, estimate.bar.high), (10.0, 30.0));
        assert!(estimate.bar.contains(&10.0) && !estimate.bar.contains(&9.9));
    }

    #[test]
    fn intervals_overlap_at_a_shared_end() {
        let a = Interval::between(1.0, 2.0);
        assert!(a.overlaps(&Interval::between(2.0, 3.0)));
        assert!(!a.overlaps(&Interval::between(2.1, 3.0)));
    }
}
