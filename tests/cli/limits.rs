//! Values that no clock, memory or processor can hold: each is one sentence and exit code 2.

use super::{noisescale, succeed, text};

#[test]
fn impossible_values_are_refused_in_a_sentence() {
    let cases = [
        (
            "run quickstart --checkpoint-every 1e30",
            "at most 1000000000 seconds",
        ),
        ("work a --patience 1e300", "at most 1000000000 seconds"),
        ("run quickstart --threads 100000000000", "at most 4096 runs"),
        ("work a --shard 1/1000000000000", "more than 1000000 shards"),
        (
            "train quickstart --width 16 --seed 18446744073709551614 --seeds 5 --steps 10",
            "give a smaller --seed",
        ),
        (
            "check quickstart --set time.evaluations=4294967295",
            "give at most 100000",
        ),
        (
            "check quickstart --set family.widths=[2000000000]",
            "give a smaller width",
        ),
        ("run quickstart --seeds 1.5", "a whole number of at least 1"),
        (
            "train quickstart --width -5",
            "a whole number of at least 1",
        ),
        (
            "train quickstart --width 99999999999999999999",
            "must be at most 4294967295",
        ),
        ("course a --shares abc", "a number above 0 and at most 1"),
        ("bench --kernels", "--kernels is for GPUs"),
        ("bench --replicas 3", "--replicas is for GPUs"),
        ("bench --precision fp32", "--precision is for GPUs"),
        // Its weights are more than 64 bits count.
        (
            "check cifar10-cnn --widths 2000000000",
            "give a smaller width",
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (call, sentence) in cases {
        let words: Vec<&str> = call.split(' ').collect();
        let output = noisescale(dir.path(), &words).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{call}: {errors}");
        assert!(errors.contains(sentence), "{call}: {errors}");
    }
}

#[test]
fn the_largest_seed_is_a_seed() {
    let dir = tempfile::tempdir().unwrap();
    let call = "train quickstart --width 16 --seed 18446744073709551615 --steps 10";
    let words: Vec<&str> = call.split(' ').collect();
    let output = succeed(dir.path(), &words);
    let words = text(&output.stdout);
    assert!(words.contains("seed 18446744073709551615: "), "{words}");
}
