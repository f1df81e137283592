//! Whatever the records, everything is drawn without panics and without NaN.

mod support;

use analysis::{Options, analyse_points};
use proptest::prelude::*;
use report::{PageOptions, figures, html, results_json, runs_csv, tables};
use spec::{CurvePoint, Outcome, Record, Study, plan, points};

const SEARCHES: [&str; 5] = [
    "kind = \"batch-size\"\nlearning_rate = 5\nbatch_sizes = [1, 7, 16, 1000]",
    "kind = \"learning-rate\"\nbatch_size = 4\nlearning_rates = [1e-7, 0.3, 9e5]\nreference_learning_rate = 1",
    "kind = \"paired\"\nlearning_rate = 5\nbatch_sizes = [8, 16, 32]\nbatch_size = 16\nlearning_rates = [1, 5, 9]",
    "kind = \"grid\"\nbatch_sizes = [8, 16, 32]\nlearning_rates = [1, 4]\nreference_learning_rate = 1",
    "kind = \"stability\"\nbatch_size = 64\nlearning_rates = [1, 2, 4, 8]",
];

fn a_study() -> impl Strategy<Value = Study> {
    let widths = prop_oneof![
        Just("[3]"),
        Just("[1, 2, 100000]"),
        Just("[4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]"),
    ];
    (0..SEARCHES.len(), widths, 1_u32..4, any::<bool>()).prop_map(|(search, widths, seeds, ntk)| {
        let scheme = if ntk { "ntk" } else { "standard" };
        support::study(
            "random",
            &format!("seeds = {seeds}\n[task]\ndataset = \"digits\""),
            &format!("kind = \"mlp\"\nhidden = [1]\nwidths = {widths}\nscheme = \"{scheme}\""),
            SEARCHES[search],
        )
    })
}

fn an_outcome() -> impl Strategy<Value = Option<Outcome>> {
    let accuracy = prop_oneof![
        6 => 0.2..1.0_f64,
        1 => Just(1.0),
        1 => Just(0.5),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
    ];
    prop_oneof![
        5 => accuracy.prop_map(|test_accuracy| Some(Outcome::Trained { test_accuracy })),
        1 => Just(Some(Outcome::Diverged { step: 1 })),
        1 => Just(Some(Outcome::Stalled { step: 2, test_accuracy: 0.1 })),
        2 => Just(None),
    ]
}

/// A record for every run that has an outcome, which are dealt out in turn.
fn recorded(study: &Study, outcomes: &[Option<Outcome>]) -> Vec<Record> {
    let runs = plan(study);
    let dealt = runs.iter().zip(outcomes.iter().cycle());
    let record = |(run, outcome): (&spec::Run, &Option<Outcome>)| {
        let outcome = (*outcome)?;
        let accuracy = outcome.trained().unwrap_or(0.1);
        let curve = (0..run.seed % 7).map(|at| CurvePoint {
            step: at,
            training_loss: Some(f64::NAN),
            test_accuracy: accuracy,
            validation_accuracy: accuracy - 0.01 * at as f64,
        });
        let device = "a \"device\",\nodd".into();
        Some(Record::new(run, outcome, curve.collect(), 1e9, device))
    };
    dealt.filter_map(record).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_panics_and_nothing_is_nan(
        study in a_study(),
        outcomes in prop::collection::vec(an_outcome(), 1..90),
    ) {
        let records = recorded(&study, &outcomes);
        let options = Options { resamples: 20, ..Options::default() };
        let findings = [analyse_points(&study, &points(&study), &records, options)];
        let drawn = figures(&findings);
        for figure in &drawn {
            let svg = figure.svg();
            prop_assert!(roxmltree::Document::parse(&svg).is_ok());
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
            prop_assert!(!figure.csv().contains("NaN"));
        }
        if let Some(figure) = drawn.first() {
            prop_assert!(figure.png(0.5).is_ok());
        }
        let page = html(&findings, &drawn, &PageOptions::default());
        prop_assert!(!page.contains("NaN<") && !page.contains(">NaN"));
        prop_assert!(!tables(&findings).contains("NaN"));
        let csv = runs_csv(&study, &spec::points(&study), &records);
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        prop_assert_eq!(reader.records().filter(Result::is_ok).count(), findings[0].runs.recorded);
        prop_assert!(results_json(&findings).len() > 2);
    }
}
