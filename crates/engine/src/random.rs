//! Random numbers by counter: each is a function of (seed, purpose, position)
//! and of nothing else.
//!
//! No generator is carried along, so a run gives the same numbers on every
//! device, with any number of threads, in any company, and resumed at any step.
//! The function is Philox4x32-10 (Salmon, Moraes, Dror, Shaw, *Parallel Random
//! Numbers: As Easy as 1, 2, 3*, SC 2011).

use std::f64::consts::TAU;

/// What random numbers are drawn for. Purposes never share numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Weights before the first step.
    InitialWeights,
    /// The order of the examples in an epoch.
    Order,
    /// Crops and flips.
    Augmentation,
    /// Which activations are dropped, by the dropout layer's index.
    Dropout(u32),
}

impl Purpose {
    fn word(self) -> u32 {
        match self {
            Self::InitialWeights => 0,
            Self::Order => 1,
            Self::Augmentation => 2,
            Self::Dropout(layer) => 3 + layer,
        }
    }
}

/// The random numbers of one seed and purpose.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    key: [u32; 2],
    purpose: u32,
}

impl Stream {
    /// The stream of a seed and purpose.
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        Self {
            key: [seed as u32, (seed >> 32) as u32],
            purpose: purpose.word(),
        }
    }

    /// Four uniform words at a position.
    #[inline]
    pub fn block(&self, position: u64, lane: u32) -> [u32; 4] {
        let counter = [lane, position as u32, (position >> 32) as u32, self.purpose];
        philox(counter, self.key)
    }

    /// Normal numbers of mean 0 (Box–Muller), four to a block.
    pub fn normals(&self, position: u64, values: &mut [f32], deviation: f64) {
        let blocks = values.len().div_ceil(4);
        let blocks = u32::try_from(blocks).expect("a tensor stays under 16 Gi values");
        for (lane, four) in (0..blocks).zip(values.chunks_mut(4)) {
            let [a, b, c, d] = self.block(position, lane);
            for ((radius, angle), pair) in [(a, b), (c, d)].into_iter().zip(four.chunks_mut(2)) {
                // (0, 1], so that the logarithm is finite.
                let uniform = (f64::from(radius) + 1.0) / 4_294_967_296.0;
                let radius = deviation * (-2.0 * uniform.ln()).sqrt();
                let (sin, cos) = (TAU * f64::from(angle) / 4_294_967_296.0).sin_cos();
                let both = [(radius * cos) as f32, (radius * sin) as f32];
                pair.copy_from_slice(&both[..pair.len()]);
            }
        }
    }
}

/// Philox4x32 with ten rounds.
#[inline]
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [
                key[0].wrapping_add(0x9E37_79B9),
                key[1].wrapping_add(0xBB67_AE85),
            ];
        }
        let first = u64::from(counter[0]) * 0xD251_1F53;
        let second = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
    }
    counter
}

/// A random order of 0..n in which each place is computed on its own.
///
/// A Feistel network over the smallest power of two that holds n; values beyond
/// n walk on until they fall inside. Each half in turn is mixed with a hash of
/// the other, which is a bijection whatever the hash, and 24 rounds of it
/// are enough for the permutations of small sets to come out evenly (tested).
#[derive(Debug, Clone)]
pub struct Permutation {
    n: u32,
    low_bits: u32,
    bits: u32,
    keys: [u32; ROUNDS],
}

const ROUNDS: usize = 24;

impl Permutation {
    /// The order of `n` examples in one epoch of a run.
    pub fn of_epoch(seed: u64, epoch: u64, n: u32) -> Self {
        let stream = Stream::new(seed, Purpose::Order);
        let mut keys = [0; ROUNDS];
        for (lane, four) in keys.chunks_exact_mut(4).enumerate() {
            four.copy_from_slice(&stream.block(epoch, lane as u32));
        }
        let bits = (32 - n.saturating_sub(1).leading_zeros()).max(2);
        Self {
            n,
            low_bits: bits / 2,
            bits,
            keys,
        }
    }

    /// The example at a place; both below n.
    #[inline]
    pub fn at(&self, place: u32) -> u32 {
        debug_assert!(place < self.n);
        let mut value = place;
        loop {
            value = self.shuffle(value);
            if value < self.n {
                return value;
            }
        }
    }

    #[inline]
    fn shuffle(&self, value: u32) -> u32 {
        let low_mask = (1 << self.low_bits) - 1;
        let high_mask = (1 << (self.bits - self.low_bits)) - 1;
        let (mut high, mut low) = (value >> self.low_bits, value & low_mask);
        for keys in self.keys.chunks_exact(2) {
            high ^= mix(low ^ keys[0]) & high_mask;
            low ^= mix(high ^ keys[1]) & low_mask;
        }
        high << self.low_bits | low
    }
}

/// Spreads the bits of a word over all of it: multiplications by odd numbers
/// and shifts, each of which can be undone, so no two words meet. One
/// multiplication is not enough: orders of five then come out unevenly.
#[inline]
fn mix(mut word: u32) -> u32 {
    word = (word ^ word >> 16).wrapping_mul(0x85EB_CA6B);
    word = (word ^ word >> 13).wrapping_mul(0xC2B2_AE35);
    word ^ word >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn philox_known_answers() {
        // From the Random123 distribution (kat_vectors, philox4x32 10).
        assert_eq!(
            philox([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn permutations_hold_everything_once() {
        for n in [1, 2, 3, 5, 64, 1_197, 55_000] {
            let order = Permutation::of_epoch(3, 9, n);
            let mut seen: Vec<u32> = (0..n).map(|place| order.at(place)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..n), "{n}");
        }
    }

    #[test]
    fn small_permutations_come_out_evenly() {
        // 120 orders of five, 60,000 draws: χ² has 119 degrees of freedom, mean
        // 119 and deviation 15.4; 180 is four deviations out.
        let mut counts: HashMap<Vec<u32>, f64> = HashMap::new();
        let draws = 60_000;
        for draw in 0..draws {
            let order = Permutation::of_epoch(draw, draw / 7, 5);
            *counts
                .entry((0..5).map(|place| order.at(place)).collect())
                .or_default() += 1.0;
        }
        let expected = draws as f64 / 120.0;
        let chi2: f64 = counts
            .values()
            .map(|n| (n - expected).powi(2) / expected)
            .sum();
        assert_eq!(counts.len(), 120);
        assert!(chi2 < 180.0, "{chi2}");
    }

    #[test]
    fn neighbours_part_ways() {
        // After shuffling, examples that were neighbours are as far apart as any
        // two: the mean distance of two places among n is n/3.
        let n = 55_000u32;
        let order = Permutation::of_epoch(1, 2, n);
        let distance: f64 = (1..n)
            .map(|place| f64::from(order.at(place).abs_diff(order.at(place - 1))))
            .sum::<f64>()
            / f64::from(n - 1);
        assert!(
            (distance / (f64::from(n) / 3.0) - 1.0).abs() < 0.01,
            "{distance}"
        );
    }

    #[test]
    fn normals_have_their_moments() {
        let mut sample = vec![f32::NAN; 200_001];
        Stream::new(5, Purpose::InitialWeights).normals(0, &mut sample, 2.0);
        let n = sample.len() as f64;
        let mean = sample.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
        let moment = |k: i32| {
            sample
                .iter()
                .map(|x| f64::from(*x / 2.0).powi(k))
                .sum::<f64>()
                / n
        };
        assert!(mean.abs() < 0.02);
        assert!((moment(2) - 1.0).abs() < 0.01);
        assert!((moment(4) - 3.0).abs() < 0.1);
    }

    #[test]
    fn streams_differ_by_seed_purpose_and_position() {
        let blocks = [
            Stream::new(1, Purpose::Order).block(0, 0),
            Stream::new(2, Purpose::Order).block(0, 0),
            Stream::new(1, Purpose::Augmentation).block(0, 0),
            Stream::new(1, Purpose::Dropout(1)).block(0, 0),
            Stream::new(1, Purpose::Order).block(1, 0),
            Stream::new(1, Purpose::Order).block(0, 1),
        ];
        for (i, one) in blocks.iter().enumerate() {
            assert!(blocks[i + 1..].iter().all(|other| other != one));
        }
    }
}
