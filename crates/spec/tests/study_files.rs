//! Study files: good ones read, bad ones name the line and the remedy.

use spec::{Override, Study, plan, points};
use std::path::Path;

const GOOD: &str = r#"seeds = 3

[task]
dataset = "digits"

[family]
kind = "mlp"
hidden = [1]
widths = [8, 4]
scheme = "ntk"

[search]
kind = "paired"
learning_rate = 5.0
batch_sizes = [4, 8]
batch_size = 4
learning_rates = [2.5, 5]

[time]
epochs = 10
steps = 100
"#;

fn read(text: &str, sets: &[&str]) -> Result<Study, String> {
    let overrides: Vec<Override> = sets.iter().map(|s| Override::parse(s).unwrap()).collect();
    Study::parse("test", Path::new("test.toml"), text, &overrides).map_err(|e| e.to_string())
}

#[test]
fn a_good_file_becomes_a_plan() {
    let study = read(GOOD, &[]).unwrap();
    // Two widths × (2 batch sizes + 2 rates) points.
    let all = points(&study);
    assert_eq!(all.len(), 8);
    // T = 10 · 1197 / 4 = 2992.5, rounded up; at half the rate twice that.
    assert_eq!(all[0].steps, 2993);
    assert_eq!(all[4].steps, 5986);
    // (B 4, ε 5) is a point of both searches and trained once: 3 points × 3 seeds × 2 widths.
    assert_eq!(plan(&study).len(), 18);
}

#[test]
fn ids_follow_everything_that_matters() {
    let one = plan(&read(GOOD, &[]).unwrap());
    let again = plan(&read(&GOOD.replace("seeds = 3", "seeds = 4"), &[]).unwrap());
    // More seeds: the old runs keep their ids.
    assert!(
        one.iter()
            .all(|run| again.iter().any(|other| other.id() == run.id()))
    );
    let changed = plan(&read(&GOOD.replace("\"ntk\"", "\"standard\""), &[]).unwrap());
    assert!(
        one.iter()
            .all(|run| changed.iter().all(|other| other.id() != run.id()))
    );
}

#[test]
fn overrides_change_values_and_explain_themselves() {
    let study = read(GOOD, &["search.batch_sizes=[16,32]", "family.widths=[128]"]).unwrap();
    assert_eq!(study.widths.len(), 1);
    let error = read(GOOD, &["search.batchsizes=[16]"]).unwrap_err();
    assert!(
        error.starts_with("--set search.batchsizes=[16]: unknown key `batchsizes`"),
        "{error}"
    );
    assert!(error.contains("did you mean `batch_sizes`?"), "{error}");
    // What an override has set is its own fault, not a line's.
    for (change, expected) in [
        ("time.scale=0", "must be above 0 and at most 1000, not 0"),
        (
            "search.learning_rate=inf",
            "learning rate must be finite and above 0, not inf",
        ),
        (
            "search.learning_rates=[1.0, nan]",
            "learning rate must be finite and above 0, not NaN",
        ),
        (
            "seeds=-1",
            "this must be a whole number from 0 to 4294967295, not -1",
        ),
        (
            "search={ kind = \"stability\", batch_size = 2000, learning_rates = [1.0] }",
            "`search.batch_size`: batch size 2000 exceeds the 1197 training examples of Digits",
        ),
    ] {
        let error = read(GOOD, &[change]).unwrap_err();
        assert_eq!(error, format!("--set {change}: {expected}"));
    }
}

#[test]
fn one_search_can_be_cut_out_of_a_pair() {
    let pair = points(&read(GOOD, &[]).unwrap());
    for (kind, part) in [("batch-size", 0..4), ("learning-rate", 4..8)] {
        let study = read(GOOD, &[&format!("search.kind={kind:?}")]).unwrap();
        assert_eq!(points(&study), pair[part]);
    }
}

#[test]
fn rules_by_width_go_with_the_widths() {
    let rule = |widths: &str| format!("[[by_width]]\nwidths = {widths}\nepochs = 2\n");
    let ruled = format!("{GOOD}\n{}", rule("[4, 8]"));
    let study = read(&ruled, &["family.widths=[8, 16]"]).unwrap();
    assert_eq!(study.by_width[0].widths, [spec::Width::new(8).unwrap()]);
    let study = read(&ruled, &["family.widths=[16]"]).unwrap();
    assert!(study.by_width.is_empty());
    // In the file itself it is a mistake, and so is a width with two rules.
    let error = read(&format!("{GOOD}\n{}", rule("[5]")), &[]).unwrap_err();
    assert!(error.contains("width 5 is not among"), "{error}");
    let error = read(&format!("{ruled}\n{}", rule("[8]")), &[]).unwrap_err();
    assert!(error.contains("width 8 is in two tables"), "{error}");
}

#[test]
fn time_scale_scales_every_bound() {
    let study = read(GOOD, &["search.reference_steps=1000"])
        .unwrap()
        .with_time_scale(0.1);
    let all = points(&study);
    // 1 epoch of 1197 / 4 = 299.25 steps; reference 100, twice that at half the rate.
    assert_eq!((all[0].steps, all[4].steps, all[5].steps), (300, 200, 100));
}

#[test]
fn mistakes_name_their_line_and_remedy() {
    let cases = [
        (
            "scheme = \"ntk\"",
            "sceme = \"ntk\"",
            "test.toml:10: unknown key `sceme`; did you mean `scheme`?",
        ),
        (
            "dataset = \"digits\"",
            "dataset = \"digit\"",
            "test.toml:4: unknown value `digit`; did you mean `digits`?",
        ),
        (
            "widths = [8, 4]",
            "widths = [8, 0]",
            "test.toml:9: width must be a whole number of at least 1, not 0",
        ),
        (
            "widths = [8, 4]",
            "widths = []",
            "test.toml:9: `family.widths`: lists no values; give at least one",
        ),
        (
            "learning_rate = 5.0",
            "learning_rate = -1",
            "test.toml:14: learning rate must be finite and above 0, not -1",
        ),
        (
            "learning_rate = 5.0",
            "learning_rate = inf",
            "test.toml:14: learning rate must be finite and above 0, not inf",
        ),
        (
            "learning_rates = [2.5, 5]",
            "learning_rates = [1.0, nan]",
            "test.toml:17: learning rate must be finite and above 0, not NaN",
        ),
        (
            "batch_sizes = [4, 8]",
            "batch_sizes = [4, inf]",
            "test.toml:15: batch size must be a whole number of at least 1, not inf",
        ),
        (
            "widths = [8, 4]",
            "widths = [8, \"4\"]",
            "test.toml:9: this must be a number, not \"4\"",
        ),
        (
            "batch_sizes = [4, 8]",
            "batch_sizes = [4, 2000]",
            "test.toml:15: `search.batch_sizes`: batch size 2000 exceeds the 1197 training examples of Digits",
        ),
        (
            "seeds = 3",
            "seeds = 0",
            "test.toml:1: `seeds`: 0 repetitions measure nothing; give at least 1",
        ),
        (
            "kind = \"paired\"",
            "kind = \"batch-size\"",
            "test.toml:16: `search.batch_size`: a search of kind batch-size does not use this key; remove it",
        ),
        (
            "batch_size = 4\n",
            "",
            "test.toml:12: `search.batch_size`: this kind of search needs this key",
        ),
        (
            "hidden = [1]",
            "hidden = []",
            "test.toml:8: `family.hidden`: list the hidden layers",
        ),
        (
            "[time]",
            "[time]\nevaluations = 100001",
            "test.toml:20: `time.evaluations`: give at most 100000, not 100001",
        ),
        (
            "[time]",
            "[regularizers]\ncrop_padding = 8\n[time]",
            "test.toml:20: `regularizers.crop_padding`: images of 8×8 can be moved by 7 pixels at most, not 8",
        ),
        (
            "seeds = 3",
            "seeds = \"three\"",
            "test.toml:1: this must be a whole number from 0 to 4294967295, not \"three\"",
        ),
        (
            "batch_size = 4",
            "batch_size = 2000",
            "test.toml:16: `search.batch_size`: batch size 2000 exceeds",
        ),
        (
            "kind = \"mlp\"\nhidden = [1]",
            "kind = \"wrn\"\nblocks = 100000000",
            "test.toml:8: `family.blocks`: a group can have 1000 blocks at most, not 100000000",
        ),
        (
            "kind = \"mlp\"\nhidden = [1]",
            "kind = \"layers\"\nlayers = [{ kind = \"conv\", channels = 2, kernel = 3, padding = 9223372036854775807 }]",
            "test.toml:6: `family`: width 4: layer 1 (conv) does not fit its input of 8×8×1: kernel, stride and padding can be 4096 at most",
        ),
        (
            "kind = \"mlp\"\nhidden = [1]",
            "kind = \"cnn\"",
            "test.toml:6: `family`: width 4: layer 4 (conv) does not fit its input of 4×4×12: a 5×5 filter with padding 0 is larger than that; CNNs of this family need images of 12×12 pixels or more",
        ),
        ("[time]", "[time", "test.toml:19: "),
    ];
    for (good, bad, expected) in cases {
        let error = read(&GOOD.replacen(good, bad, 1), &[]).unwrap_err();
        assert!(error.starts_with(expected), "{bad}: {error}");
    }
}

#[test]
fn what_has_not_trained_depends_on_the_classes() {
    let files = "files = { path = \".\", train_images = \"x\", train_labels = \"y\", \
                 test_images = \"u\", test_labels = \"v\", validation = 10 }";
    let own = GOOD.replacen("dataset = \"digits\"", files, 1);
    let stall = |changes: &[&str], classes: usize| {
        let content = spec::task::FileContent {
            shape: spec::Shape::flat(8),
            classes,
            split: spec::task::SplitSizes {
                train: 3000,
                validation: 10,
                test: 100,
            },
            digest: String::new(),
        };
        let study = read(&own, changes).unwrap().with_content(content).unwrap();
        study.setting.evaluation.stall_accuracy
    };
    // c + (1 − c)/9 with c = 1/10 and 1/2.
    assert_eq!(stall(&[], 10), 0.2);
    assert!((stall(&[], 2) - 5.0 / 9.0).abs() < 1e-12);
    assert_eq!(stall(&["time.stall_accuracy=0.4"], 2), 0.4);
}
