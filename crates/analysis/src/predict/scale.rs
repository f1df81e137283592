//! ε, B and ḡ at one width: each from the other two.

use super::{Pair, PredictError, Predicted, RateLimit, Stability};
use crate::brief::StudyBrief;
use crate::measure::{Fixed, Interval};
use spec::{BatchSize, LearningRate, Width};

/// Turns ε, B and ḡ into each other at one width of a study.
pub struct Scale<'a> {
    pub study: &'a StudyBrief,
    pub width: Width,
}

impl Scale<'_> {
    /// c: 1/σ₀² in the NTK scheme, W/σ₀² in the standard one.
    pub fn inverse_weight_scale(&self) -> f64 {
        let study = self.study;
        study
            .scheme
            .inverse_weight_scale(study.weight_scale, self.width)
    }

    /// ḡ = ε·N·c/(B(1 − m)).
    pub fn noise(&self, rate: f64, batch: f64) -> f64 {
        let decay = 1.0 - self.study.momentum.get();
        rate * f64::from(self.study.examples) * self.inverse_weight_scale() / (batch * decay)
    }

    /// ε that has this ḡ: ḡ is linear in ε.
    fn rate_for(&self, noise: f64, batch: f64) -> Result<LearningRate, PredictError> {
        self.rate(noise / self.noise(1.0, batch))
    }

    pub fn rate(&self, value: f64) -> Result<LearningRate, PredictError> {
        LearningRate::new(value).map_err(|_| PredictError::OutOfRange(self.study.name.clone()))
    }

    /// A whole batch size at or below a real one, at most N; `None` below 1.
    pub fn batch_size(&self, real: f64) -> Option<BatchSize> {
        // Rounding must not lose the batch size that is exactly at the limit.
        let whole = (real * (1.0 + 1e-12))
            .floor()
            .min(f64::from(self.study.examples));
        BatchSize::new(whole as u32).ok()
    }

    pub fn pair_at_size(
        &self,
        size: u32,
        noise: Predicted,
        limit: RateLimit,
    ) -> Result<Pair, PredictError> {
        let out_of_range = |_| PredictError::OutOfRange(self.study.name.clone());
        let batch = f64::from(size);
        let learning_rate = self.rate_for(noise.value, batch)?;
        let batch_size = BatchSize::new(size).map_err(out_of_range)?;
        Ok(Pair {
            batch_size,
            batch_sizes: Interval::between(batch_size, batch_size),
            learning_rate,
            learning_rates: Interval {
                low: self.rate_for(noise.interval.low, batch)?,
                high: self.rate_for(noise.interval.high, batch)?,
            },
            noise: noise.value,
            stability: limit.verdict(learning_rate),
        })
    }

    pub fn chosen(
        &self,
        fixed: Fixed,
        noise: Predicted,
        limit: RateLimit,
    ) -> Result<Pair, PredictError> {
        match fixed {
            Fixed::BatchSize(batch_size) if batch_size.get() > self.study.examples => {
                Err(PredictError::BatchTooLarge {
                    batch_size,
                    examples: self.study.examples,
                    task: self.study.task.clone(),
                })
            }
            Fixed::BatchSize(batch_size) => self.pair_at_size(batch_size.get(), noise, limit),
            Fixed::LearningRate(rate) => self.pair_at_rate(rate, noise, limit),
        }
    }

    fn pair_at_rate(
        &self,
        rate: LearningRate,
        noise: Predicted,
        limit: RateLimit,
    ) -> Result<Pair, PredictError> {
        // The nearest whole size, but a real size below 1 cannot be reached at all.
        let size = |noise: f64| {
            let real = self.noise(rate.get(), 1.0) / noise;
            self.batch_size(if real < 1.0 { real } else { real.round() })
        };
        let batch_size = size(noise.value).ok_or(PredictError::RateTooSmall(rate))?;
        // The interval may hold noise that no size reaches.
        let least = size(noise.interval.high).or_else(|| self.batch_size(1.0));
        Ok(Pair {
            batch_size,
            batch_sizes: Interval {
                low: least.unwrap_or(batch_size),
                high: size(noise.interval.low).unwrap_or(batch_size),
            },
            learning_rate: rate,
            learning_rates: Interval::between(rate, rate),
            noise: self.noise(rate.get(), f64::from(batch_size.get())),
            stability: limit.verdict(rate),
        })
    }
}

impl RateLimit {
    /// A rate that was worked out to be the limit itself may exceed it by rounding.
    fn verdict(&self, rate: LearningRate) -> Stability {
        if rate.get() <= self.learning_rate.get() * (1.0 + 1e-9) {
            Stability::Allowed
        } else {
            Stability::AboveLimit
        }
    }
}
