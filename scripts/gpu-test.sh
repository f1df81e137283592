#!/usr/bin/env bash
# Runs the tests of CUDA on an NVIDIA GPU, and fails if there is none (`cargo test` emulates one then).
# With arguments, those are test programs built elsewhere (a machine with a GPU need not have Rust):
# cargo test --release -p noisescale-engine --features cuda --test cuda --test devices --no-run
set -euo pipefail
cd "$(dirname "$0")/.."
nvidia-smi -L
output=$(mktemp)
trap 'rm -f "$output"' EXIT
if (($# > 0)); then
    failed=0
    for tests in "$@"; do
        "$tests" --test-threads 1 --nocapture 2>&1 | tee -a "$output" || failed=1
    done
    ((failed == 0)) || exit 1
else
    cargo test --release -p noisescale-engine --features cuda --test cuda --test devices -- \
        --test-threads 1 --nocapture 2>&1 | tee "$output"
fi
if grep -qE '(skipped|emulated): ' "$output"; then
    echo 'no GPU could be used, see above' >&2
    exit 1
fi
# Without the feature the programs are there, but not their tests of GPUs.
for name in first_losses_agree_with_the_cpu cuda::company_does_not_matter; do
    if ! grep -q "^test $name " "$output"; then
        echo "no test \`$name\` has run: build both test programs with --features cuda" >&2
        exit 1
    fi
done
