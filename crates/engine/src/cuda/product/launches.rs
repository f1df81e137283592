//! The variant of the kernel that computes a product, and its launch.

use super::spacing::{Pace, Spacing};
use super::tile::{PACKED_TERMS, Size, Tile};
use super::{Epilogue, Filter, Inner, Operand, Product, Target, array};
use crate::cuda::args::{PackArgs, ProductArgs};
use crate::cuda::launch::{Define, Kernel, Launch, Source, Tables};

/// How a product is computed.
#[derive(Debug, Clone, Copy)]
struct Form {
    size: Size,
    tile: Tile,
    /// Whether C is contiguous along n.
    by_rows: bool,
    /// Whether warps multiply by fours.
    grouped: bool,
    /// Whether B is packed for that.
    packed: bool,
    /// Pixels of A that a tile reads through all taps, or 0.
    halo: usize,
    /// Taps of the filter where there is a halo, or 0.
    taps: usize,
    /// Floats of a pixel, likewise.
    pixel: usize,
}

impl Product {
    /// The launches of this product: B may have to be packed before.
    pub fn launches(mut self, tables: &mut Tables) -> Vec<Launch> {
        let form = self.form();
        let parts = (self.args.parts as usize).max(1);
        let per_part = match parts {
            1 => form.size.k,
            _ => self.args.k_per_part as usize,
        };
        (self.args.parts, self.args.k_per_part) = (parts as i32, per_part.max(1) as i32);
        if self.epilogue == Epilogue::Descend {
            self.args.ahead = (AHEAD * self.units.processors) as u32;
        }
        self.put_tables(&form, tables);
        let packing = form.packed.then(|| self.pack(&form));
        let kernel = Kernel {
            source: Source::Product,
            function: "product",
            defines: self.defines(&form),
        };
        let (rows, columns) = form.tile.blocks(form.size);
        let grid = [rows, columns * parts, self.replicas];
        let mut launch = Launch::new(kernel, grid, form.tile.threads(), &self.args);
        launch.shared = 4 * self.shared_floats(&form);
        packing.into_iter().chain([launch]).collect()
    }

    fn form(&self) -> Form {
        let size = Size {
            m: self.a.x.len(),
            n: self.b.x.len(),
            k: self.a.k.len(),
            replicas: self.replicas,
            processors: self.units.processors,
        };
        debug_assert_eq!(size.k, self.b.k.len());
        let by_rows = matches!(self.target, Target::ByRows(_));
        let packed = Tile::grouped(size, self.epilogue, self.units)
            .filter(|tile| by_rows && tile.packed_floats(size) * self.replicas <= self.room.floats);
        let direct = Tile::grouped_dense(size, self.units).filter(|_| {
            !by_rows && self.rounded && self.b.inner == Inner::K && self.b.vector() == 4
        });
        let grouped = packed.or(direct);
        let tile = grouped.unwrap_or_else(|| Tile::of(size, by_rows, self.epilogue));
        let halo = self.halo(tile);
        let (pixel, taps) = match (halo, &self.filter) {
            (1.., Some(filter)) => (filter.pixel, filter.taps.len()),
            _ => (0, 0),
        };
        Form {
            size,
            tile,
            by_rows,
            grouped: grouped.is_some(),
            packed: packed.is_some(),
            halo,
            taps,
            pixel,
        }
    }

    /// How the rows of tiles of A and of B lie, and how tiles follow one another, where they do so alike.
    fn layouts(&self, form: &Form) -> [(Option<Spacing>, Option<Pace>); 2] {
        let Form { tile, .. } = *form;
        let layout = |operand: &Operand, x: usize, copied: bool| {
            let rows = (copied && operand.vector() == 4)
                .then(|| operand.spacing(x, tile.k, tile.threads()))
                .flatten();
            (rows, rows.and_then(|_| operand.pace(tile.k)))
        };
        [
            layout(&self.a, tile.m, form.halo == 0),
            layout(&self.b, tile.n, !form.packed),
        ]
    }

    /// The macros of the variant, as `product.cuh` lists them.
    fn defines(&self, form: &Form) -> Vec<Define> {
        let Form { tile, .. } = *form;
        let (a_vector, mut b_vector) = (self.a.vector(), self.b.vector());
        let mut b_inner = self.b.inner;
        let [(a_rows, a_pace), (b_rows, b_pace)] = self.layouts(form);
        if form.packed {
            // Packed, all lie alike.
            (b_inner, b_vector) = (Inner::K, 4);
        }
        let mut defines: Vec<Define> = vec![
            ("TILE_M", tile.m as u32),
            ("TILE_N", tile.n as u32),
            ("TILE_K", tile.k as u32),
            ("WARPS_M", tile.warps.0 as u32),
            ("WARPS_N", tile.warps.1 as u32),
            ("WARPS_K", tile.warps.2 as u32),
            ("GROUPED", u32::from(form.grouped)),
            ("B_PACKED", u32::from(form.packed)),
            ("OVERLAP", u32::from(tile.overlap)),
            ("STAGES", tile.stages as u32),
            ("TAIL", u32::from(!form.size.k.is_multiple_of(tile.k))),
            ("TOGETHER", tile.together as u32),
            ("A_INNER", u32::from(self.a.inner == Inner::X)),
            ("B_INNER", u32::from(b_inner == Inner::X)),
            ("A_VECTOR", a_vector),
            ("B_VECTOR", b_vector),
            ("A_MATRIX", u32::from(self.a.is_matrix())),
            ("B_MATRIX", u32::from(self.b.is_matrix())),
            ("C_MATRIX", u32::from(self.target.step().is_some())),
            ("A_STEADY", u32::from(a_pace.is_some())),
            ("B_STEADY", u32::from(b_pace.is_some())),
            ("HALO", form.halo as u32),
            ("PIXEL", form.pixel as u32),
            ("TAPS", form.taps as u32),
            ("EPILOGUE", self.epilogue as u32),
            ("C_INNER", u32::from(form.by_rows)),
            ("TERMS", self.units.precision.terms() as u32),
        ];
        defines.extend(Spacing::defines(a_rows, ["A_SEGMENT", "A_STEP", "A_JUMP"]));
        defines.extend(Spacing::defines(b_rows, ["B_SEGMENT", "B_STEP", "B_JUMP"]));
        defines
    }

    /// Floats of shared memory: tiles on their way, or what warps leave for each other after them.
    fn shared_floats(&self, form: &Form) -> usize {
        let Form { tile, .. } = *form;
        let a = match form.halo {
            0 => tile.stages * self.a.tile_floats(tile.m, tile.k),
            pixels => 2 * pixels * (tile.k + 4) + form.taps.next_multiple_of(4),
        };
        let b = match form.grouped {
            true => tile.n * tile.k,
            false => self.b.tile_floats(tile.n, tile.k),
        };
        let sums = match form.by_rows {
            _ if form.packed => 0,
            true => tile.m * (tile.n + 4),
            false => tile.n * (tile.m + 4),
        };
        (a + tile.stages * b).max(sums).max(tile.exchange_floats())
    }

    fn put_tables(&mut self, form: &Form, tables: &mut Tables) {
        let Size { m, n, k, .. } = form.size;
        (self.args.m, self.args.n, self.args.k) = (m as i32, n as i32, k as i32);
        self.args.a = self.a.args(tables);
        if let (1.., Some(filter)) = (form.halo, &self.filter) {
            filter.put(&mut self.args, tables);
        }
        self.args.b = self.b.args(tables);
        let [(_, a), (_, b)] = self.layouts(form);
        for (pace, args) in [(a, &mut self.args.a), (b, &mut self.args.b)] {
            if let Some(pace) = pace {
                pace.put(args);
            }
        }
        self.args.c_step = self.target.step().unwrap_or(0);
        (self.args.c_m, self.args.c_n) = match &self.target {
            Target::ByRows(rows) => (tables.put(rows), 0),
            Target::ByColumns(columns, rows) => {
                let rows = rows.as_ref().map_or(0, |rows| tables.put(rows));
                (rows, tables.put(columns))
            }
        };
    }

    /// Packs B, which the product then reads instead.
    fn pack(&mut self, form: &Form) -> Launch {
        let (size, columns) = (form.size, form.tile.n);
        let (tiles, across) = (size.k.div_ceil(PACKED_TERMS), size.n.div_ceil(columns));
        let many = PACKED_COLUMNS / columns;
        let blocks = tiles / many * across * self.replicas;
        let at_once = match blocks < PACKING_BLOCKS * self.units.processors {
            true => 1,
            false => many,
        };
        let to = array(self.room.at, form.tile.packed_floats(size));
        let args = PackArgs {
            b: self.args.b,
            to,
            replicas: self.args.replicas,
            n: size.n as i32,
            k: size.k as i32,
        };
        self.args.b.array = to;
        let kernel = Kernel {
            source: Source::Pack,
            function: "pack",
            defines: vec![
                ("TILES", at_once as u32),
                ("TILE_N", columns as u32),
                ("B_INNER", u32::from(self.b.inner == Inner::X)),
                ("B_VECTOR", self.b.vector()),
                ("TERMS", self.units.precision.terms() as u32),
            ],
        };
        let grid = [tiles.div_ceil(at_once), across, self.replicas];
        Launch::new(kernel, grid, PACKERS, &args)
    }
}

/// By how many blocks of every multiprocessor weights are fetched ahead of their step.
const AHEAD: usize = 2;
/// Threads of a block that packs.
const PACKERS: usize = 256;
/// Columns, over all its tiles, that such a block may have at once: its shared memory is for these.
const PACKED_COLUMNS: usize = 256;
/// With fewer packing blocks than these by multiprocessor, each has only one tile.
const PACKING_BLOCKS: usize = 4;
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
