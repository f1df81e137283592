#!/usr/bin/env bash
# The wheel that carries the program is installed by pip into a fresh environment, and used there.
# With an argument, that wheel; without, one that is built here in the development profile, which
# after `cargo build` takes seconds. Without Python or the packages it needs it says that it was skipped,
# or fails where NOISESCALE_REQUIRE names `python` or `maturin`.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p target
work=$(mktemp -d "$PWD/target/wheel-test.XXXXXX")
trap 'rm -rf "$work"' EXIT

skip() {
    local what=$1
    shift
    case ,${NOISESCALE_REQUIRE:-}, in
        *,"$what",*) echo "NOISESCALE_REQUIRE names $what: $*" >&2 && exit 1 ;;
    esac
    echo "skipped: $*"
    exit 0
}

wheel=${1:+$(realpath "$1")}
if [[ -z $wheel ]]; then
    maturin=$(scripts/find-maturin.sh) || skip maturin 'maturin is not there and cannot be installed'
    "$maturin" build --quiet --profile dev --compatibility linux --out "$work/wheels"
    wheel=$(echo "$work"/wheels/*.whl)
fi
python3 -m venv "$work/environment" || skip python 'Python makes no virtual environment here'

# It carries the licences and names its version in the metadata.
"$work/environment/bin/python" - "$wheel" <<'PYTHON'
import sys, zipfile
names = zipfile.ZipFile(sys.argv[1]).namelist()
for part in ["scripts/noisescale", "LICENSE-MIT", "LICENSE-APACHE", "METADATA"]:
    if not any(name.endswith(part) for name in names):
        sys.exit(f"the wheel lacks {part}: {names}")
PYTHON

# Nothing but the wheel: no index, no dependencies.
"$work/environment/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
noisescale=$work/environment/bin/noisescale
said=$("$noisescale" --version)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
[[ $said == "noisescale $version" ]] || { echo "it says \`$said\`, not noisescale $version" >&2; exit 1; }
"$noisescale" info
cd "$work"
"$noisescale" run digits-mlp --widths 8,16 --seeds 2 --time-scale 0.01 --device cpu --quiet --out study
for file in report.html results.json; do
    [[ -s study/$file ]] || { echo "no $file came of the study" >&2; exit 1; }
done
echo "$(basename "$wheel"): installed, and it ran a study"
