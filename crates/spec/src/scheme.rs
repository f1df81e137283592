//! The two parameterization schemes and what each makes of a fan-in, a noise
//! scale and a learning rate (section 2.1 of the paper).

use crate::quantity::{
    LearningRate, NoiseScale, NormalizedLearningRate, NormalizedNoiseScale, WeightScale, Width,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a layer's weights enter its output, n being the fan-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// z = Wy + b, W ~ N(0, σ₀²/n), b = 0.
    Standard,
    /// z = (Wy + b)/√n, W ~ N(0, σ₀²), b = 0 (the paper's β = 1/√n).
    Ntk,
}

impl Scheme {
    /// Standard deviation of a weight at initialization.
    pub fn initial_deviation(self, weight_scale: WeightScale, fan_in: usize) -> f64 {
        match self {
            Self::Standard => (weight_scale.get() / fan_in as f64).sqrt(),
            Self::Ntk => weight_scale.get().sqrt(),
        }
    }

    /// The factor on Wy + b.
    pub fn multiplier(self, fan_in: usize) -> f64 {
        match self {
            Self::Standard => 1.0,
            Self::Ntk => 1.0 / (fan_in as f64).sqrt(),
        }
    }

    /// ḡ = g/σ₀² (NTK) or g·w/σ₀² (standard).
    pub fn normalized_noise(
        self,
        noise: NoiseScale,
        weight_scale: WeightScale,
        width: Width,
    ) -> NormalizedNoiseScale {
        NormalizedNoiseScale(noise.get() * self.inverse_weight_scale(weight_scale, width))
    }

    /// ε̄ = ε/σ₀² (NTK) or ε·w/σ₀² (standard).
    pub fn normalized_learning_rate(
        self,
        lr: LearningRate,
        weight_scale: WeightScale,
        width: Width,
    ) -> NormalizedLearningRate {
        NormalizedLearningRate(lr.get() * self.inverse_weight_scale(weight_scale, width))
    }

    /// One over the squared scale of a weight at this width.
    pub fn inverse_weight_scale(self, weight_scale: WeightScale, width: Width) -> f64 {
        match self {
            Self::Standard => f64::from(width.get()) / weight_scale.get(),
            Self::Ntk => 1.0 / weight_scale.get(),
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standard => "standard",
            Self::Ntk => "NTK",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::{BatchSize, Momentum};

    #[test]
    fn normalization_by_hand() {
        let g = NoiseScale::of(
            LearningRate::new(2.0).unwrap(),
            Momentum::new(0.5).unwrap(),
            BatchSize::new(4).unwrap(),
            100,
        ); // 2 · 100 / (4 · 0.5) = 100
        let two = WeightScale::new(2.0).unwrap();
        let width = Width::new(8).unwrap();
        assert_eq!(Scheme::Ntk.normalized_noise(g, two, width).get(), 50.0);
        assert_eq!(
            Scheme::Standard.normalized_noise(g, two, width).get(),
            400.0
        );
        let lr = LearningRate::new(3.0).unwrap();
        assert_eq!(
            Scheme::Ntk.normalized_learning_rate(lr, two, width).get(),
            1.5
        );
        assert_eq!(
            Scheme::Standard
                .normalized_learning_rate(lr, two, width)
                .get(),
            12.0
        );
    }

    #[test]
    fn both_schemes_start_from_the_same_function() {
        // Deviation × multiplier is what the first forward pass sees.
        let two = WeightScale::new(2.0).unwrap();
        for fan_in in [1, 25, 784] {
            let [standard, ntk] = [Scheme::Standard, Scheme::Ntk]
                .map(|s| s.initial_deviation(two, fan_in) * s.multiplier(fan_in));
            assert!((standard - ntk).abs() < 1e-15);
        }
    }
}
