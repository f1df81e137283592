#!/usr/bin/env bash
# Names maturin, which makes the wheel: the one on the PATH, or one under target/, installed if need be.
set -euo pipefail
cd "$(dirname "$0")/.."
if command -v maturin; then exit; fi
environment=$PWD/target/maturin
if [[ ! -x $environment/bin/maturin ]]; then
    python3 -m venv "$environment" >&2
    "$environment/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.9,<2' >&2
fi
echo "$environment/bin/maturin"
