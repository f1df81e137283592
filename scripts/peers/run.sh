#!/usr/bin/env bash
# Compares the speed of training steps with PyTorch, JAX, Burn and candle, on
# one thread of this machine. README.md says what is measured.
#
# usage: scripts/peers/run.sh [--only TEXT] [--seconds S] [--rounds N]
#                             [--skip burn,candle] [--json FILE]
#
# $NOISESCALE_PEERS is the folder for the Python environment and what is built
# (default: target/peers, some 7 GB). $NOISESCALE names the program (default:
# a release build of this source). Needs python3 (3.11 or later), a C++
# compiler for torch.compile, and cargo.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
work=${NOISESCALE_PEERS:-$root/target/peers}

fail() {
    echo "peers: $*" >&2
    exit 1
}

# The names after --skip, between commas.
skipped() {
    local previous= argument
    for argument in "$@"; do
        case $previous in --skip) echo ",$argument," ;; esac
        case $argument in --skip=*) echo ",${argument#--skip=}," ;; esac
        previous=$argument
    done
}

mkdir -p "$work"
work=$(cd "$work" && pwd)
python=$work/venv/bin/python

if [ ! -x "$python" ]; then
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "python3 is older than 3.11; put a newer one first in PATH"
    python3 -m venv "$work/venv"
fi
if ! cmp -s "$here/requirements.txt" "$work/requirements.txt"; then
    echo "peers: installing PyTorch and JAX" >&2
    "$python" -m pip install --quiet --disable-pip-version-check -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$work/requirements.txt"
fi

features=
for peer in burn candle; do
    case $(skipped "$@") in *",$peer,"*) ;; *) features+="$peer," ;; esac
done
if [ -n "$features" ]; then
    # candle chooses its instructions when it is compiled.
    RUSTFLAGS="-C target-cpu=native" CARGO_TARGET_DIR=$work/cargo \
        cargo build --release --locked --no-default-features --features "$features" \
        --manifest-path "$here/rust/Cargo.toml"
fi
export NOISESCALE_PEERS_RUST=$work/cargo/release

if [ -z "${NOISESCALE:-}" ]; then
    NOISESCALE=$(cd "$root" && cargo build --release && realpath "${CARGO_TARGET_DIR:-target}")
    NOISESCALE+=/release/noisescale
fi
export NOISESCALE

# One thread for everybody.
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 RAYON_NUM_THREADS=1
export TORCHINDUCTOR_COMPILE_THREADS=1 TORCHINDUCTOR_CACHE_DIR=$work/inductor
export XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
export JAX_PLATFORMS=cpu CUDA_VISIBLE_DEVICES= PYTHONDONTWRITEBYTECODE=1

# glibc's malloc gives large blocks back to the system at every step unless it
# is told to keep them, which slows PyTorch's wider perceptrons down.
export MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1073741824
export MALLOC_TOP_PAD_=67108864

# The last core this process may use: the first ones serve the rest of the system.
pin=()
if command -v taskset >/dev/null; then
    cores=$(taskset -cp $$ | sed 's/.*: //')
    pin=(taskset -c "${cores##*[,-]}")
fi
exec ${pin[@]+"${pin[@]}"} "$python" "$here/peers.py" "$@"
