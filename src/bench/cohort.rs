//! `noisescale bench --device cuda`: steps of whole cohorts on a GPU.

use super::{CASES, Case, EXAMPLES, known};
use crate::cli::BenchArgs;
use crate::device::{Choice, Precision, open_gpus};
use crate::output::say;
use crate::runner::{made_up, step_products};
use anyhow::Result;
use engine::cuda::{Cohort, CohortPlan, Device, DeviceData};
use serde::Serialize;
use spec::Run;
use std::time::{Duration, Instant};

/// What was measured.
#[derive(Serialize)]
struct Report {
    version: u32,
    device: String,
    precision: String,
    cases: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    replicas: usize,
    batch: u32,
    microseconds_per_step: f64,
    microseconds_per_replica_step: f64,
    teraflops: f64,
    megabytes: usize,
}

/// Runs of a cohort where the command line names none: as many as a study has.
const REPLICAS: usize = 20;
/// Steps between two looks at the clock.
const STEPS: u64 = 32;

/// Measures, and prints a table.
pub fn run(args: &BenchArgs) -> Result<()> {
    let named = |case: &&Case| case.is_named(&args.only);
    known(&args.only, named)?;
    let ordinal = match args.device {
        Choice::Cuda(ordinal) => ordinal.unwrap_or(0),
        Choice::Auto | Choice::Cpu => 0,
    };
    let device = open_gpus(Some(ordinal))?.remove(0);
    let precision: engine::cuda::Precision = args.precision.unwrap_or(Precision::Tf32).into();
    let mut report = Report {
        version: 1,
        device: device.name().to_owned(),
        precision: precision.to_string(),
        cases: Vec::new(),
    };
    if !args.json {
        say!(
            "{:14} {:>8} {:>12} {:>18} {:>9}   {}, {precision}",
            "network",
            "replicas",
            "µs/step",
            "µs/replica-step",
            "TFLOP/s",
            report.device
        );
    }
    for case in CASES.iter().filter(named) {
        let row = measure(case, &device, args)?;
        if !args.json {
            say!(
                "{:14} {:>8} {:>12.1} {:>18.2} {:>9.1}",
                row.name,
                row.replicas,
                row.microseconds_per_step,
                row.microseconds_per_replica_step,
                row.teraflops
            );
        }
        report.cases.push(row);
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}

/// Where a step spends its time.
fn print_kernels(cohort: &mut Cohort<'_>) -> Result<()> {
    for (launch, seconds) in cohort.profile()? {
        say!("  {:>9.2} µs  {launch}", 1e6 * seconds);
    }
    Ok(())
}

fn measure(case: &Case, device: &Device, args: &BenchArgs) -> Result<Row> {
    let first = case.run()?;
    let data = DeviceData::new(&made_up(&first, [EXAMPLES, 1, 1]), device)?;
    let plan = CohortPlan::new(
        &first,
        args.precision.unwrap_or(Precision::Tf32).into(),
        device.limits()?,
    )?;
    let replicas = args.replicas.unwrap_or(REPLICAS);
    let megabytes = plan.bytes(replicas, &data) >> 20;
    let seeds = 0..replicas as u64;
    let runs = seeds.map(|seed| {
        let run = Run {
            seed,
            ..first.clone()
        };
        (run, None)
    });
    let mut cohort = Cohort::new(device, &data, &plan, runs.collect())?;
    cohort.advance(STEPS)?;
    let mut fastest = f64::INFINITY;
    let (start, limit) = (Instant::now(), Duration::from_secs_f64(args.seconds));
    while start.elapsed() < limit {
        let slice = Instant::now();
        cohort.advance(STEPS)?;
        fastest = fastest.min(slice.elapsed().as_secs_f64() / STEPS as f64);
    }
    if args.kernels {
        print_kernels(&mut cohort)?;
    }
    let flops = 2.0 * step_products(&first) * replicas as f64;
    Ok(Row {
        name: case.name,
        replicas,
        batch: case.batch,
        microseconds_per_step: 1e6 * fastest,
        microseconds_per_replica_step: 1e6 * fastest / replicas as f64,
        teraflops: flops / fastest / 1e12,
        megabytes,
    })
}
