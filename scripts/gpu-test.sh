#!/usr/bin/env bash
# Runs the tests that need an NVIDIA GPU, and fails if there is none.
# With an argument, that is a test program built elsewhere (a machine with a GPU need not have
# Rust): cargo test --release -p noisescale-engine --features cuda --test cuda --no-run
set -euo pipefail
cd "$(dirname "$0")/.."
nvidia-smi -L
tests=${1:-}
output=$(mktemp)
trap 'rm -f "$output"' EXIT
if [[ -n $tests ]]; then
    "$tests" --test-threads 1 --nocapture 2>&1 | tee "$output"
else
    cargo test --release -p noisescale-engine --features cuda --test cuda -- \
        --test-threads 1 --nocapture 2>&1 | tee "$output"
fi
if grep -q '^skipped: ' "$output"; then
    echo 'no GPU could be used, see above' >&2
    exit 1
fi
