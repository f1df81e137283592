//! How a product is cut up: tiles of blocks, what warps share, parts of long sums. Rules of thumb, measured on
//! an H200.

use super::{Epilogue, Units};

/// Blocks of a multiprocessor that fill it.
const MANY_BLOCKS: usize = 2;
/// Shared memory of a large GPU's multiprocessor, in floats.
const SHARED_FLOATS: usize = 56_000;
/// Terms that a part of a sum should at least have.
const TERMS_PER_PART: usize = 256;
/// Fixed cost of a block, in terms multiplied.
const TERMS_TO_BEGIN: usize = 64;
/// Cost of adding up one tile's partial sums, in terms multiplied.
const TERMS_TO_ADD: f64 = 0.7;
/// Most parts of a sum.
const MOST_PARTS: usize = 64;
/// Sums of at most so many terms take less time than reading what they are added to.
const FEW_TERMS: usize = 128;

/// The tile of a block, how warps share it, and how many tiles are on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) warps: (usize, usize, usize),
    pub(super) stages: usize,
    /// Whether a stretch is read while the one before is multiplied.
    pub(super) overlap: bool,
    /// Blocks of a multiprocessor that registers should allow.
    pub(super) together: usize,
}

/// The size of a product.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Rows.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// Terms of a sum.
    pub k: usize,
    /// Runs.
    pub replicas: usize,
    /// Multiprocessors that compute it.
    pub processors: usize,
}

impl Tile {
    /// A tile that fits a product.
    pub fn of(size: Size, by_rows: bool, epilogue: Epilogue) -> Self {
        let tile = match by_rows {
            true => Self::by_rows(size, epilogue),
            false => Self::dense(size),
        };
        match epilogue {
            // The step of weights waits for memory: as many blocks as have room for what they read.
            Epilogue::Descend => Self {
                together: if tile.n == 128 { 2 } else { 4 },
                ..tile
            },
            Epilogue::Partial => tile,
            Epilogue::Forward | Epilogue::Data if by_rows => tile.crowded(size, epilogue),
            Epilogue::Forward | Epilogue::Data => tile,
        }
    }

    /// Convolutions wait less with more blocks on a multiprocessor, even if fewer stretches of each
    /// are on their way: measured on an H200 for those of CNNs and Wide ResNets.
    fn crowded(self, size: Size, epilogue: Epilogue) -> Self {
        let (stages, together) = match (self.m, self.n) {
            (128, 32) => (2, 4),
            (128, 64) => (2, 3),
            (128, 128) if epilogue == Epilogue::Data => (2, 2),
            (128, 128) => (self.stages, 1),
            _ if size.k <= self.k => (self.stages, 4),
            _ => (self.stages, 1),
        };
        Self {
            stages,
            together,
            ..self
        }
    }

    /// Of a C that is contiguous along n.
    fn by_rows(size: Size, epilogue: Epilogue) -> Self {
        let weights = matches!(epilogue, Epilogue::Descend | Epilogue::Partial);
        let Size { m, n, k, .. } = size;
        let small_k = match k {
            0..=8 => 8,
            9..=16 => 16,
            _ => 32,
        };
        let tile = |m, n, k, warps| Self {
            m,
            n,
            k,
            warps,
            stages: if size.k <= k { 2 } else { 3 },
            overlap: false,
            together: 1,
        };
        if weights && k <= FEW_TERMS {
            if k > 64 && n.is_multiple_of(128) {
                return tile(64, 128, 32, (2, 4, 1));
            }
            let n = if n <= 16 { 16 } else { 64 };
            let warps = if n == 16 { (4, 1, 1) } else { (2, 2, 1) };
            return Self {
                stages: 2,
                ..tile(64, n, small_k, warps)
            };
        }
        let many = |tile_m: usize, tile_n: usize| {
            m.div_ceil(tile_m) * n.div_ceil(tile_n) * size.replicas >= MANY_BLOCKS * size.processors
        };
        match n {
            _ if m <= 32 && n > 8 => tile(32, if n <= 16 { 16 } else { 32 }, small_k, (2, 2, 1)),
            0..=16 if many(128, 16) => tile(128, 16, small_k, (4, 1, 1)),
            0..=16 => tile(64, 16, small_k, (4, 1, 1)),
            17..=32 if many(128, 32) => tile(128, 32, small_k, (4, 1, 1)),
            17..=32 => tile(64, 32, small_k, (4, 1, 1)),
            97.. if m > 64 && (many(128, 128) || weights) => tile(128, 128, small_k, (2, 2, 1)),
            _ if m > 64 && (many(128, 64) || weights) => tile(128, 64, small_k, (2, 2, 1)),
            _ => tile(64, 64, small_k, (2, 2, 1)),
        }
    }

    /// Outputs by images: W is read once and hardly used, so much of it should be on its way.
    fn dense(size: Size) -> Self {
        let Size { m, n, k, .. } = size;
        let n = match n {
            0..=8 => 8,
            9..=16 => 16,
            17..=32 => 32,
            _ => 64,
        };
        let stages = |tile_k| if k <= tile_k { 2 } else { 4 };
        if m <= 16 && k > 64 {
            // The read-out: few outputs, and a long sum that the warps share.
            let n = n.min(32);
            return Self {
                m: 16,
                n,
                k: 128,
                warps: (1, 1, 8),
                stages: if k <= 128 { 2 } else { 3 },
                overlap: false,
                together: 1,
            };
        }
        let tile_k = match k {
            0..=8 => 8,
            9..=16 => 16,
            17..=64 => 32,
            _ if n == 64 => 32,
            _ if m.div_ceil(64) * size.replicas < 2 * MANY_BLOCKS * size.processors => 64,
            _ => 32,
        };
        let warps = if n == 64 { (2, 2, 1) } else { (4, 1, 1) };
        Self {
            m: 64,
            n,
            k: tile_k,
            warps,
            stages: stages(tile_k),
            overlap: false,
            together: 1,
        }
    }

    /// For warps that multiply by fours, of 16 rows each, a C that is contiguous along n: where
    /// they can, and tiles are large.
    pub(super) fn grouped(size: Size, epilogue: Epilogue, units: Units) -> Option<Self> {
        if !units.together() || size.m < PACKED_ROWS {
            return None;
        }
        let tile = Self::by_rows(size, epilogue);
        let large = (tile.m, tile.k) == (128, PACKED_TERMS) && tile.n >= 64;
        // Weight gradients of 64 channels wait for the second-level cache, from which every row of tiles
        // reads B: three taps of a filter at a time.
        let taller = epilogue == Epilogue::Partial && tile.n == 64 && size.m.is_multiple_of(192);
        let m = if taller { 192 } else { tile.m };
        // Two stretches are more than the registers of twelve warps hold.
        let overlap = !taller;
        large.then_some(Self {
            m,
            warps: (m / 16, 1, 1),
            stages: 2 + usize::from(overlap),
            overlap,
            together: 2,
            ..tile
        })
    }

    /// The same for outputs by images, which are not packed.
    pub(super) fn grouped_dense(size: Size, units: Units) -> Option<Self> {
        let tile = Self::dense(size);
        if !units.together() || (tile.m, tile.n, tile.k) != (64, 64, PACKED_TERMS) {
            return None;
        }
        let tile = Self {
            warps: (4, 1, 1),
            together: 4,
            ..tile
        };
        // Where these are too many for all to be under way at once, it takes less to read fewer.
        let (rows, columns) = tile.blocks(size);
        let many = rows * columns * size.replicas > MANY_BLOCKS * size.processors;
        let large = many && size.m.is_multiple_of(128) && size.n > 96;
        Some(match large {
            false => tile,
            true => Self {
                m: 128,
                n: 128,
                warps: (8, 1, 1),
                stages: 5,
                overlap: true,
                together: 1,
                ..tile
            },
        })
    }

    /// Floats of one run's B when it is packed by these tiles.
    pub(super) fn packed_floats(&self, size: Size) -> usize {
        size.n.next_multiple_of(self.n) * size.k.next_multiple_of(PACKED_TERMS)
    }

    /// Threads of a block.
    pub(super) fn threads(&self) -> usize {
        let (m, n, k) = self.warps;
        32 * m * n * k
    }

    pub(super) fn blocks(&self, size: Size) -> (usize, usize) {
        (size.m.div_ceil(self.m), size.n.div_ceil(self.n))
    }

    /// Floats that the warps of one sum leave for each other.
    pub(super) fn exchange_floats(&self) -> usize {
        let (m, n, k) = self.warps;
        (k - 1) * m * n * (self.m / m) * (self.n / n)
    }
}

/// Terms of a tile of B that is packed.
pub(super) const PACKED_TERMS: usize = 32;
/// Rows for which packing B pays.
const PACKED_ROWS: usize = 512;

/// Floats that packing B takes, of all runs; 0 where it is not packed.
pub fn packed_floats(size: Size, epilogue: Epilogue, units: Units) -> usize {
    let tile = Tile::grouped(size, epilogue, units);
    tile.map_or(0, |tile| tile.packed_floats(size) * size.replicas)
}

/// How many parts the long sums of a weight gradient are cut into, and the terms of each; `None`
/// for sums so short that the step is taken with them.
///
/// All blocks take equally long, so a last round of few leaves most of the GPU idle: the number of
/// parts is that for which rounds, and adding up what they leave, take the least time.
pub fn parts(size: Size, units: Units) -> Option<(usize, usize)> {
    if size.k <= FEW_TERMS {
        return None;
    }
    let grouped = Tile::grouped(size, Epilogue::Partial, units);
    let tile = grouped.unwrap_or_else(|| Tile::of(size, true, Epilogue::Partial));
    let (rows, columns) = tile.blocks(size);
    let blocks = rows * columns * size.replicas;
    let terms = |parts: usize| size.k.div_ceil(parts).next_multiple_of(tile.k);
    // Operands of a weight gradient are contiguous along rows and columns.
    let floats = tile.stages * tile.k * (tile.m + tile.n + 16);
    let together = match grouped {
        Some(tile) => tile.together,
        None => (SHARED_FLOATS / floats).max(1),
    };
    let cost = |parts: usize| {
        let rounds = (blocks * parts).div_ceil(together * size.processors);
        let adding = TERMS_TO_ADD * (blocks * parts) as f64;
        (rounds * (terms(parts) + TERMS_TO_BEGIN)) as f64 + adding
    };
    let most = (size.k / TERMS_PER_PART).clamp(1, MOST_PARTS);
    let best = (1..=most).min_by(|a, b| cost(*a).total_cmp(&cost(*b)))?;
    Some((size.k.div_ceil(terms(best)), terms(best)))
}

#[cfg(test)]
mod tests {
    use super::super::Precision;
    use super::*;

    /// On an H200.
    fn size(m: usize, n: usize, k: usize, replicas: usize) -> Size {
        Size {
            m,
            n,
            k,
            replicas,
            processors: 132,
        }
    }

    fn units(precision: Precision, groups: bool) -> Units {
        Units {
            precision,
            groups,
            processors: 132,
        }
    }

    #[test]
    fn the_last_round_of_a_weight_gradient_is_full() {
        // 3 × 3 convolutions of Wide ResNets of width 4 and 8 at B = 64, by runs, and their tiles, two
        // on a multiprocessor.
        for (channels, pixels, replicas, tile) in [
            (128, 1024, 4, (128, 128)),
            (256, 256, 4, (128, 128)),
            (512, 64, 4, (128, 128)),
            (64, 1024, 8, (192, 64)),
            (128, 256, 8, (128, 128)),
            (256, 64, 8, (128, 128)),
        ] {
            let size = size(9 * channels, channels, 64 * pixels, replicas);
            let (parts, terms) = parts(size, units(Precision::Tf32, true)).unwrap();
            assert!(parts * terms >= size.k && (parts - 1) * terms < size.k);
            let blocks = size.m.div_ceil(tile.0) * size.n.div_ceil(tile.1) * replicas * parts;
            let rounds = blocks.div_ceil(264);
            let busy = blocks as f64 / (264 * rounds) as f64;
            assert!(busy > 0.85, "{channels} channels: {parts} parts, {busy}");
        }
        // Sums of few terms are not cut.
        let alone = units(Precision::Tf32, false);
        assert_eq!(parts(size(784, 512, 128, 20), alone), None);
        assert_eq!(parts(size(784, 512, 256, 20), alone), Some((1, 256)));
    }

    #[test]
    fn large_tiles_are_for_four_warps_at_a_time() {
        let wide = size(65_536, 128, 1152, 4);
        let packed = |size, units| packed_floats(size, Epilogue::Forward, units);
        let hopper = units(Precision::Tf32, true);
        assert_eq!(packed(wide, hopper), 128 * 1152 * 4);
        // Columns by whole tiles, terms by 32.
        assert_eq!(
            packed(
                Size {
                    n: 72,
                    k: 100,
                    ..wide
                },
                hopper
            ),
            128 * 128 * 4
        );
        assert_eq!(packed(Size { n: 16, ..wide }, hopper), 0);
        assert_eq!(packed(Size { m: 256, ..wide }, hopper), 0);
        assert_eq!(packed(wide, units(Precision::Fp32, true)), 0);
        assert_eq!(packed(wide, units(Precision::Tf32, false)), 0);
    }
}
