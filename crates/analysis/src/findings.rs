//! The findings of a study: everything that figures, report, CSV, `results.json` and
//! predictions are made from, computed from its records alone.
//!
//! `Findings` is what `results.json` holds; `docs/METHOD.md` describes its fields.
//! A reader checks `version` first: it is raised when a field changes its meaning or
//! its name, not when one is added.

use crate::brief::StudyBrief;
use crate::compare::{self, SearchAgreement};
use crate::grid::GridFindings;
use crate::law::{self, LawFit};
use crate::measure::{Axis, Fixed, Measure};
use crate::observation::{Observations, Scan, observe};
use crate::optimum::Optimum;
use crate::point::PointFindings;
use crate::resample::{Confidence, Random, Replicates, Resolution, ScanPoint, replicate};
use crate::sample::Sample;
use crate::stability::{Resampling, StabilityFindings};
use serde::Serialize;
use spec::{Point, Record, SearchKind, Setting, Study, Width};

pub use crate::observation::RunCounts;

/// Version of the fields of [`Findings`].
pub const VERSION: u32 = 1;

/// How the bootstrap is done. By default: 1000 resamples, 95 %, seeds and grid.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Options {
    /// Resamples.
    pub resamples: usize,
    /// Share of the resamples between the two ends of an interval.
    pub level: f64,
    /// What the intervals of optima and laws account for.
    pub resolution: Resolution,
    /// Seed of the generator.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            resamples: 1000,
            level: 0.95,
            resolution: Resolution::SeedsAndGrid,
            seed: 0,
        }
    }
}

/// What one search found at one width.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WidthFindings {
    /// w.
    pub width: Width,
    /// What is held fixed at this width.
    pub fixed: Fixed,
    /// Ascending along the scanned axis.
    pub points: Vec<PointFindings>,
    /// The best interval; `None` if no run trained.
    pub optimum: Option<Optimum>,
    /// The optima of the bootstrap's resamples, from which all intervals come.
    #[serde(skip)]
    pub replicates: Replicates,
}

/// What one search found over the family.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchFindings {
    /// Batch-size or learning-rate search.
    pub kind: SearchKind,
    /// What is scanned.
    pub axis: Axis,
    /// What is held fixed, if it is the same at every width.
    pub fixed: Option<Fixed>,
    /// What optima and law are measured in.
    pub measure: Measure,
    /// Ascending.
    pub widths: Vec<WidthFindings>,
    /// How the optimum follows the width.
    pub law: LawFit,
}

/// All that a study's records say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Findings {
    /// [`VERSION`].
    pub version: u32,
    /// The study in brief.
    pub study: StudyBrief,
    /// How the bootstrap was done.
    pub bootstrap: Options,
    /// Runs and records.
    pub runs: RunCounts,
    /// The batch-size search, then the learning-rate search, as far as the study has them.
    pub searches: Vec<SearchFindings>,
    /// The two searches against each other, by width.
    pub agreement: Vec<SearchAgreement>,
    /// The grid of every width, if the study is one.
    pub grids: Vec<GridFindings>,
    /// Failure rates, if it is a stability study.
    pub stability: Option<StabilityFindings>,
}

/// The findings of a study from its records, with the usual bootstrap.
pub fn analyse<'a>(study: &Study, records: impl IntoIterator<Item = &'a Record>) -> Findings {
    analyse_points(study, &spec::points(study), records, Options::default())
}

/// The findings of some points of a study: of a grid that was extended, for example.
pub fn analyse_points<'a>(
    study: &Study,
    points: &[Point],
    records: impl IntoIterator<Item = &'a Record>,
    options: Options,
) -> Findings {
    let observations = observe(study, points, records);
    let analysis = Analysis {
        setting: &study.setting,
        observations: &observations,
        options,
    };
    let searches: Vec<SearchFindings> = [
        (SearchKind::BatchSize, Axis::BatchSize),
        (SearchKind::LearningRate, Axis::LearningRate),
    ]
    .into_iter()
    .filter_map(|(kind, axis)| analysis.search(kind, axis))
    .collect();
    Findings {
        version: VERSION,
        study: StudyBrief::of(study),
        bootstrap: options,
        runs: observations.counts,
        agreement: compare::searches(&searches),
        searches,
        grids: analysis.grids(),
        stability: analysis.stability(),
    }
}

impl SearchFindings {
    /// The optima of all widths that have one.
    pub fn optima(&self) -> impl Iterator<Item = &Optimum> {
        self.widths
            .iter()
            .filter_map(|found| found.optimum.as_ref())
    }
}

impl Findings {
    /// The findings of one kind of search, if the study has it.
    pub fn search(&self, kind: SearchKind) -> Option<&SearchFindings> {
        self.searches.iter().find(|search| search.kind == kind)
    }

    /// The highest mean accuracy at a width, over all searches and grids.
    pub fn peak(&self, width: Width) -> Option<Sample> {
        let scanned = (self.searches.iter().flat_map(|search| &search.widths))
            .filter(|found| found.width == width)
            .filter_map(|found| found.optimum.as_ref());
        let gridded = (self.grids.iter().filter(|grid| grid.width == width))
            .flat_map(|grid| &grid.curves)
            .filter_map(|curve| curve.optimum.as_ref());
        scanned
            .chain(gridded)
            .map(|optimum| optimum.peak)
            .max_by(|a, b| a.mean.total_cmp(&b.mean))
    }
}

struct Analysis<'a> {
    setting: &'a Setting,
    observations: &'a Observations<'a>,
    options: Options,
}

impl Analysis<'_> {
    fn search(&self, kind: SearchKind, axis: Axis) -> Option<SearchFindings> {
        let measure = Measure::of(self.setting, axis);
        let scans = self.observations.scans(kind, axis);
        let widths: Vec<WidthFindings> = (scans.iter())
            .filter_map(|scan| self.width(scan, measure, axis))
            .collect();
        let law = law::fit(measure, &widths, self.options.level);
        let fixed = widths.first()?.fixed;
        Some(SearchFindings {
            kind,
            axis,
            fixed: widths.iter().all(|w| w.fixed == fixed).then_some(fixed),
            measure,
            widths,
            law,
        })
    }

    fn width(&self, scan: &Scan<'_>, measure: Measure, axis: Axis) -> Option<WidthFindings> {
        let first = scan.points.first()?.point;
        let points: Vec<PointFindings> = (scan.points.iter())
            .map(|observed| PointFindings::of(self.setting, observed))
            .collect();
        let replicates = self.replicates(scan, measure, axis);
        let mut optimum = Optimum::of(self.setting, measure, &points);
        if let Some(optimum) = &mut optimum {
            self.add_confidence(optimum, &replicates);
        }
        Some(WidthFindings {
            width: scan.width,
            fixed: match axis {
                Axis::BatchSize => Fixed::LearningRate(first.learning_rate),
                Axis::LearningRate => Fixed::BatchSize(first.batch_size),
            },
            points,
            optimum,
            replicates,
        })
    }

    fn replicates(&self, scan: &Scan<'_>, measure: Measure, axis: Axis) -> Replicates {
        let points: Vec<ScanPoint> = (scan.points.iter())
            .map(|observed| ScanPoint {
                accuracies: observed.accuracies(),
                coordinate: measure.at(self.setting, observed.place()),
            })
            .collect();
        // A stream for every scan, so that widths and searches do not share draws.
        let search_key = match axis {
            Axis::BatchSize => 0,
            Axis::LearningRate => 1 << 32,
        };
        let key = search_key | u64::from(scan.width.get());
        let mut random = Random::stream(self.options.seed, key);
        let Options {
            resamples,
            resolution,
            ..
        } = self.options;
        replicate(&points, resamples, resolution, &mut random)
    }

    fn add_confidence(&self, optimum: &mut Optimum, replicates: &Replicates) {
        // With one run at the best point a resample repeats it: its spread is unknown.
        if optimum.threshold.is_none() {
            return;
        }
        let values: Vec<f64> = replicates.values.iter().flatten().copied().collect();
        optimum.confidence = Confidence::of(values, self.options.level);
        optimum.resamples_at_grid_end =
            replicates.open as f64 / replicates.values.len().max(1) as f64;
    }

    fn grids(&self) -> Vec<GridFindings> {
        self.observations
            .scans(SearchKind::Grid, Axis::BatchSize)
            .iter()
            .map(|scan| GridFindings::of(self.setting, scan))
            .collect()
    }

    fn stability(&self) -> Option<StabilityFindings> {
        let scans = self
            .observations
            .scans(SearchKind::Stability, Axis::LearningRate);
        let resampling = Resampling {
            seed: self.options.seed,
            resamples: self.options.resamples,
            level: self.options.level,
            resolution: self.options.resolution,
        };
        StabilityFindings::of(self.setting, &scans, resampling)
    }
}
