//! Which variant of the product kernel computes what: tiles, operands, parts.

use super::args::{Address, Array, OperandArgs, PackArgs, ProductArgs};
use super::launch::{Define, Kernel, Launch, Source, Tables};

/// How exactly factors enter products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Each factor as two TF32 numbers: errors as those of float32.
    Fp32,
    /// Each factor rounded to TF32, 10 bits behind the point.
    Tf32,
}

impl Precision {
    /// Products of TF32 numbers that make up one.
    pub fn terms(self) -> usize {
        match self {
            Self::Fp32 => 3,
            Self::Tf32 => 1,
        }
    }
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
        })
    }
}

/// What multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Units {
    /// How exactly.
    pub precision: Precision,
    /// Whether four warps can multiply together, the second factor read from shared memory.
    pub groups: bool,
    /// Multiprocessors.
    pub processors: usize,
}

/// One factor: element (x, k) lies at x\[x\] + k\[k\].
#[derive(Debug, Clone)]
pub struct Operand {
    /// Where it is.
    pub array: Array,
    /// By row of A or column of B.
    pub x: Vec<i32>,
    /// By term of the sum.
    pub k: Vec<i32>,
    /// Which of the two is contiguous.
    pub inner: Inner,
}

/// The contiguous direction of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inner {
    /// Along the sum.
    K,
    /// Along rows of A or columns of B.
    X,
}

/// What becomes of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epilogue {
    /// Outputs of a layer.
    Forward = 0,
    /// Gradient of its inputs.
    Data = 1,
    /// Gradient of its weights, and the step.
    Descend = 2,
    /// A part of that gradient.
    Partial = 3,
}

/// Where the sums go.
#[derive(Debug, Clone)]
pub enum Target {
    /// C\[m,n\] lies at rows\[m\] + n.
    ByRows(Vec<i32>),
    /// C\[m,n\] lies at m + columns\[n\], or rows\[m\] + columns\[n\].
    ByColumns(Vec<i32>, Option<Vec<i32>>),
}

/// A product to be launched.
#[derive(Debug)]
pub struct Product {
    /// A.
    pub a: Operand,
    /// B.
    pub b: Operand,
    /// C.
    pub target: Target,
    /// What becomes of the sums.
    pub epilogue: Epilogue,
    /// What multiplies.
    pub units: Units,
    /// Runs.
    pub replicas: usize,
    /// A is read through a filter.
    pub filter: Option<Filter>,
    /// Room for B to be packed, of as many floats as [`packed_floats`] says; 0 where there is none.
    pub packed: Address,
    /// All other arguments.
    pub args: ProductArgs,
}

/// How the sum of a convolution takes A: 32 channels through all taps, then the next.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Offsets of the taps, in floats.
    pub taps: Vec<i32>,
    /// Floats from one pixel to the next.
    pub pixel: usize,
    /// Floats of A in one replica.
    pub end: usize,
}

/// Blocks of a multiprocessor that fill it.
const MANY_BLOCKS: usize = 2;
/// Shared memory of a large GPU's multiprocessor, in floats.
const SHARED_FLOATS: usize = 56_000;
/// Terms that a part of a sum should at least have.
const TERMS_PER_PART: usize = 256;
/// In the time of how many terms a block begins and ends,
const TERMS_TO_BEGIN: usize = 64;
/// and in that of how many the sums of a tile are written and read again, all blocks at once.
const TERMS_TO_ADD: f64 = 0.7;
/// Most parts of a sum.
const MOST_PARTS: usize = 64;
/// Sums of at most so many terms take less time than reading what they are added to.
const FEW_TERMS: usize = 128;

/// The tile of a block, how warps share it, and how many tiles are on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    m: usize,
    n: usize,
    k: usize,
    warps: (usize, usize, usize),
    stages: usize,
    /// Blocks of a multiprocessor that registers should allow.
    together: usize,
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
            // The step of weights waits for memory, the more of it the better.
            Epilogue::Descend => Self {
                together: 4,
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
            together: 1,
        };
        if weights && k <= FEW_TERMS {
            let n = if n <= 16 { 16 } else { 64 };
            let warps = if n == 16 { (4, 1, 1) } else { (2, 2, 1) };
            return tile(64, n, small_k, warps);
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
            together: 1,
        }
    }

    /// For warps that multiply together: eight, of 16 rows each.
    fn grouped(size: Size, epilogue: Epilogue) -> Self {
        Self {
            warps: (8, 1, 1),
            stages: 2,
            together: 2,
            ..Self::by_rows(size, epilogue)
        }
    }

    fn blocks(&self, size: Size) -> (usize, usize) {
        (size.m.div_ceil(self.m), size.n.div_ceil(self.n))
    }

    /// Floats that the warps of one sum leave for each other.
    fn exchange_floats(&self) -> usize {
        let (m, n, k) = self.warps;
        (k - 1) * m * n * (self.m / m) * (self.n / n)
    }
}

/// Terms of a tile of B that is packed.
const PACKED_TERMS: usize = 32;
/// Rows for which packing B pays.
const PACKED_ROWS: usize = 512;

/// Whether four warps at a time compute a product whose C is contiguous along n: where they can, and
/// tiles are large.
fn grouped(size: Size, epilogue: Epilogue, units: Units) -> bool {
    let tile = Tile::by_rows(size, epilogue);
    units.groups
        && units.precision == Precision::Tf32
        && epilogue != Epilogue::Descend
        && size.m >= PACKED_ROWS
        && (tile.m, tile.k) == (128, PACKED_TERMS)
        && tile.n >= 64
}

/// Floats that packing B takes; 0 where it is not packed.
pub fn packed_floats(size: Size, epilogue: Epilogue, units: Units) -> usize {
    match grouped(size, epilogue, units) {
        true => {
            size.n.next_multiple_of(128) * size.k.next_multiple_of(PACKED_TERMS) * size.replicas
        }
        false => 0,
    }
}

/// How many parts the long sums of a weight gradient are cut into, and the terms of each; `None`
/// for sums so short that the step is taken with them.
///
/// All blocks take equally long, so a last round of few leaves most of the GPU idle: the number of
/// parts is that for which rounds, and adding up what they leave, take the least time.
pub fn parts(size: Size) -> Option<(usize, usize)> {
    if size.k <= FEW_TERMS {
        return None;
    }
    let tile = Tile::of(size, true, Epilogue::Partial);
    let (rows, columns) = tile.blocks(size);
    let blocks = rows * columns * size.replicas;
    let terms = |parts: usize| size.k.div_ceil(parts).next_multiple_of(tile.k);
    // Operands of a weight gradient are contiguous along rows and columns.
    let floats = tile.stages * tile.k * (tile.m + tile.n + 16);
    let together = (SHARED_FLOATS / floats).max(1);
    let cost = |parts: usize| {
        let rounds = (blocks * parts).div_ceil(together * size.processors);
        let adding = TERMS_TO_ADD * (blocks * parts) as f64;
        (rounds * (terms(parts) + TERMS_TO_BEGIN)) as f64 + adding
    };
    let most = (size.k / TERMS_PER_PART).clamp(1, MOST_PARTS);
    let best = (1..=most).min_by(|a, b| cost(*a).total_cmp(&cost(*b)))?;
    Some((size.k.div_ceil(terms(best)), terms(best)))
}

impl Product {
    /// The launches of this product: B may have to be packed before.
    pub fn launches(mut self, tables: &mut Tables) -> Vec<Launch> {
        let size = Size {
            m: self.a.x.len(),
            n: self.b.x.len(),
            k: self.a.k.len(),
            replicas: self.replicas,
            processors: self.units.processors,
        };
        debug_assert_eq!(size.k, self.b.k.len());
        let by_rows = matches!(self.target, Target::ByRows(_));
        let grouped = by_rows && self.packed != 0 && grouped(size, self.epilogue, self.units);
        let tile = match grouped {
            true => Tile::grouped(size, self.epilogue),
            false => Tile::of(size, by_rows, self.epilogue),
        };
        let parts = (self.args.parts as usize).max(1);
        let per_part = match parts {
            1 => size.k,
            _ => self.args.k_per_part as usize,
        };
        let halo = self.halo(tile);
        let threads = 32 * tile.warps.0 * tile.warps.1 * tile.warps.2;
        let (a_vector, b_vector) = (self.a.vector(), self.b.vector());
        let a_rows = match (halo, a_vector) {
            (0, 4) => self.a.spacing(tile.m, tile.k, threads),
            _ => None,
        };
        let b_rows = match b_vector {
            4 if !grouped => self.b.spacing(tile.n, tile.k, threads),
            _ => None,
        };
        let (pixel, taps) = match (halo, &self.filter) {
            (1.., Some(filter)) => (filter.pixel, filter.taps.len()),
            _ => (0, 0),
        };
        let mut defines: Vec<Define> = vec![
            ("TILE_M", tile.m as u32),
            ("TILE_N", tile.n as u32),
            ("TILE_K", tile.k as u32),
            ("WARPS_M", tile.warps.0 as u32),
            ("WARPS_N", tile.warps.1 as u32),
            ("WARPS_K", tile.warps.2 as u32),
            ("GROUPED", u32::from(grouped)),
            ("STAGES", tile.stages as u32),
            ("TOGETHER", tile.together as u32),
            ("A_INNER", u32::from(self.a.inner == Inner::X)),
            ("B_INNER", u32::from(self.b.inner == Inner::X)),
            ("A_VECTOR", a_vector),
            ("B_VECTOR", b_vector),
            ("HALO", halo as u32),
            ("PIXEL", pixel as u32),
            ("TAPS", taps as u32),
            ("EPILOGUE", self.epilogue as u32),
            ("C_INNER", u32::from(by_rows)),
            ("TERMS", self.units.precision.terms() as u32),
        ];
        defines.extend(Spacing::defines(a_rows, ["A_SEGMENT", "A_STEP", "A_JUMP"]));
        defines.extend(Spacing::defines(b_rows, ["B_SEGMENT", "B_STEP", "B_JUMP"]));
        let a_floats = match halo {
            0 => tile.stages * self.a.tile_floats(tile.m, tile.k),
            pixels => 2 * pixels * (tile.k + 4) + taps.next_multiple_of(4),
        };
        let b_floats = match grouped {
            true => tile.stages * tile.n * tile.k,
            false => tile.stages * self.b.tile_floats(tile.n, tile.k),
        };
        let floats = a_floats + b_floats;
        self.args.a = self.a.args(tables);
        if let (1.., Some(filter)) = (halo, &self.filter) {
            filter.put(&mut self.args, tables);
        }
        self.args.b = self.b.args(tables);
        let packing = grouped.then(|| self.pack(size, tile.n));
        (self.args.c_m, self.args.c_n) = match &self.target {
            Target::ByRows(rows) => (tables.put(rows), 0),
            Target::ByColumns(columns, rows) => {
                let rows = rows.as_ref().map_or(0, |rows| tables.put(rows));
                (rows, tables.put(columns))
            }
        };
        (self.args.m, self.args.n, self.args.k) = (size.m as i32, size.n as i32, size.k as i32);
        (self.args.parts, self.args.k_per_part) = (parts as i32, per_part.max(1) as i32);
        let (rows, columns) = tile.blocks(size);
        let kernel = Kernel {
            source: Source::Product,
            function: "product",
            defines,
        };
        let mut launch = Launch::new(
            kernel,
            [rows, columns * parts, self.replicas],
            threads,
            &self.args,
        );
        let exchange = match by_rows {
            true => tile.m * (tile.n + 4),
            false => tile.exchange_floats(),
        };
        launch.shared = 4 * floats.max(exchange);
        packing.into_iter().chain([launch]).collect()
    }

    /// Packs B by tiles of so many columns, which the product then reads instead.
    fn pack(&mut self, size: Size, columns: usize) -> Launch {
        let (tiles, across) = (size.k.div_ceil(PACKED_TERMS), size.n.div_ceil(columns));
        let to = array(self.packed, across * tiles * columns * PACKED_TERMS);
        let args = PackArgs {
            b: self.args.b,
            to,
            replicas: self.args.replicas,
            n: size.n as i32,
            k: size.k as i32,
        };
        self.args.b.array = to;
        let defines = vec![
            ("TILE_N", columns as u32),
            ("B_INNER", u32::from(self.b.inner == Inner::X)),
            ("B_VECTOR", self.b.vector()),
            ("TERMS", self.units.precision.terms() as u32),
        ];
        let kernel = Kernel {
            source: Source::Pack,
            function: "pack",
            defines,
        };
        Launch::new(kernel, [tiles, across, self.replicas], 256, &args)
    }
}

/// Most pixels that a tile may read at a time: two buffers of them leave room for two blocks.
const MOST_HALO: usize = 256;

impl Product {
    /// Pixels that a tile of outputs reads through all taps; 0 where it is better to copy what
    /// each tap reads.
    fn halo(&self, tile: Tile) -> usize {
        let Some(filter) = &self.filter else {
            return 0;
        };
        let whole = filter.pixel % tile.k == 0 && tile.k == 32 && tile.n >= 32;
        if !whole || filter.taps.len() < tile.stages {
            return 0;
        }
        let (first, last) = filter.reach();
        let span = |outputs: &[i32]| outputs[outputs.len() - 1] - outputs[0] + last - first;
        let ordered = self.a.x.is_sorted();
        let most = self.a.x.chunks(tile.m).map(span).max().unwrap_or(0) as usize;
        let pixels = most / filter.pixel + 1;
        if ordered && pixels <= MOST_HALO {
            pixels
        } else {
            0
        }
    }
}

/// Where a thread finds the rows of a tile that it copies, if that is alike for all threads and
/// tiles: each `step` floats on from the one before, and every `segment`-th `jump` floats from
/// the last such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spacing {
    segment: usize,
    step: i32,
    jump: i32,
}

impl Spacing {
    /// Of a table cut into tiles of `outer` entries, of which a thread has every `rows`-th.
    fn of(table: &[i32], outer: usize, rows: usize) -> Option<Self> {
        let passes = outer / rows;
        let place = |pass: usize| table[pass * rows] - table[0];
        let step = if passes > 1 { place(1) } else { 0 };
        let segment = (2..passes)
            .find(|pass| place(*pass) != *pass as i32 * step)
            .unwrap_or(passes);
        let jump = if segment < passes { place(segment) } else { 0 };
        let spacing = Self {
            segment,
            step,
            jump,
        };
        let alike = |tile: &[i32]| {
            (0..outer).all(|row| tile[row] - tile[row % rows] == spacing.place(row / rows))
        };
        (step >= 0 && jump >= 0 && table.chunks(outer).all(alike)).then_some(spacing)
    }

    fn place(&self, pass: usize) -> i32 {
        (pass % self.segment) as i32 * self.step + (pass / self.segment) as i32 * self.jump
    }

    /// As macros of the kernel.
    fn defines(spacing: Option<Self>, names: [&'static str; 3]) -> [Define; 3] {
        let (segment, step, jump) =
            spacing.map_or((0, 0, 0), |s| (s.segment as u32, s.step, s.jump));
        let [a, b, c] = names;
        [(a, segment), (b, step as u32), (c, jump as u32)]
    }
}

impl Filter {
    /// The least and the greatest offset.
    fn reach(&self) -> (i32, i32) {
        let least = self.taps.iter().min().copied().unwrap_or(0);
        (least, self.taps.iter().max().copied().unwrap_or(0))
    }

    fn put(&self, args: &mut ProductArgs, tables: &mut Tables) {
        let (first, _) = self.reach();
        let pixel = self.pixel as i32;
        let taps: Vec<i32> = self.taps.iter().map(|tap| (tap - first) / pixel).collect();
        args.a.k = tables.put(&taps);
        args.halo_first = first;
        args.halo_end = self.end as i32;
    }
}

impl Operand {
    /// Floats that a copy can move: four where they are contiguous and aligned, else one.
    fn vector(&self) -> u32 {
        let (inner, outer) = match self.inner {
            Inner::K => (&self.k, &self.x),
            Inner::X => (&self.x, &self.k),
        };
        let whole = |four: &[i32]| {
            four.len() == 4 && four[0] % 4 == 0 && (1..4).all(|i| four[i] == four[0] + i as i32)
        };
        let aligned = self.array.replica % 4 == 0 && self.array.values.is_multiple_of(16);
        let fours = inner.chunks(4).all(whole) && outer.iter().all(|at| at % 4 == 0);
        if aligned && fours { 4 } else { 1 }
    }

    /// How the rows lie that a thread copies by fours of a tile of x × k.
    fn spacing(&self, x: usize, k: usize, threads: usize) -> Option<Spacing> {
        let (table, outer, inner) = match self.inner {
            Inner::K => (&self.x, x, k),
            Inner::X => (&self.k, k, x),
        };
        // What lies beside an operand along its inner direction does no harm: no sum of it is kept.
        let whole = self.k.len().is_multiple_of(k)
            && (self.inner == Inner::X || self.x.len().is_multiple_of(x));
        let rows = 4 * threads / inner;
        if !whole || rows == 0 || !outer.is_multiple_of(rows) {
            return None;
        }
        Spacing::of(table, outer, rows)
    }

    /// Floats of a tile in shared memory, as `Mover` of `product.cu` strides it.
    fn tile_floats(&self, x: usize, k: usize) -> usize {
        match self.inner {
            Inner::K => x * (k + 4),
            Inner::X if x == 8 => k * 8,
            Inner::X => k * (x + 8),
        }
    }

    fn args(&self, tables: &mut Tables) -> OperandArgs {
        OperandArgs {
            array: self.array,
            x: tables.put(&self.x),
            k: tables.put(&self.k),
        }
    }
}

/// 0, step, 2·step, …
pub fn even(count: usize, step: usize) -> Vec<i32> {
    (0..count).map(|i| (i * step) as i32).collect()
}

/// A buffer at an address.
pub fn array(values: Address, replica: usize) -> Array {
    Array {
        values,
        replica: replica as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places of pixels in images of rows of `width` with a border of one.
    fn pixels(images: usize, height: usize, width: usize, channels: usize) -> Vec<i32> {
        let row = width + 2;
        let place = |image, y, x| (image * (height + 2) + y) * row + x;
        let mut places = Vec::new();
        for image in 0..images {
            for y in 0..height {
                places.extend((0..width).map(|x| (place(image, y, x) * channels) as i32));
            }
        }
        places
    }

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

    #[test]
    fn the_last_round_of_a_weight_gradient_is_full() {
        // 3 × 3 convolutions of Wide ResNets of width 4 and 8 at B = 64, by runs.
        for (channels, pixels, replicas) in [
            (128, 1024, 4),
            (256, 256, 4),
            (512, 64, 4),
            (128, 256, 8),
            (256, 64, 8),
        ] {
            let size = size(9 * channels, channels, 64 * pixels, replicas);
            let (parts, terms) = parts(size).unwrap();
            assert!(parts * terms >= size.k && (parts - 1) * terms < size.k);
            // Tiles of 128 × 128, two on a multiprocessor.
            let blocks = size.m.div_ceil(128) * size.n.div_ceil(128) * replicas * parts;
            let rounds = blocks.div_ceil(264);
            let busy = blocks as f64 / (264 * rounds) as f64;
            assert!(busy > 0.85, "{channels} channels: {parts} parts, {busy}");
        }
        // Sums of few terms are not cut.
        assert_eq!(parts(size(784, 512, 128, 20)), None);
        assert_eq!(parts(size(784, 512, 256, 20)), Some((1, 256)));
    }

    #[test]
    fn large_tiles_are_for_four_warps_at_a_time() {
        let units = |precision, groups| Units {
            precision,
            groups,
            processors: 132,
        };
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

    #[test]
    fn rows_that_lie_alike_are_found() {
        let spacing = |segment, step, jump| Spacing {
            segment,
            step,
            jump,
        };
        // Evenly, as those of a matrix.
        let even = even(96, 5);
        assert_eq!(Spacing::of(&even, 32, 4), Some(spacing(8, 20, 0)));
        assert_eq!(Spacing::of(&even, 32, 32), Some(spacing(1, 0, 0)));
        // Image rows of 8 pixels and their border, four by four.
        let narrow = pixels(3, 8, 8, 64);
        assert_eq!(Spacing::of(&narrow, 32, 4), Some(spacing(2, 256, 640)));
        // A tile that is half an image row.
        let wide = pixels(3, 2, 64, 4);
        assert_eq!(Spacing::of(&wide, 32, 4), Some(spacing(8, 16, 0)));
        // Rows of 10 pixels end in the middle of a thread's four.
        assert_eq!(Spacing::of(&pixels(4, 8, 10, 4), 32, 4), None);
        // Not the same in the second tile.
        assert_eq!(Spacing::of(&[0, 1, 2, 3, 4, 6, 8, 10], 4, 1), None);
    }
}
