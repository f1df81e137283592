#!/usr/bin/env bash
# Builds what a release consists of into target/dist/, and tries it:
#
#   noisescale-VERSION-TARGET.tar.gz   program, completions, manual pages, licences, README, CHANGELOG
#   noisescale-VERSION-*.whl           the same program for pip and pipx
#   SHA256SUMS                         of both
#
# Refuses a tree with changes that are not committed, unless --allow-dirty is given. Publishes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "release.sh: $*" >&2; exit 1; }
step() { printf '\n== %s\n' "$*"; }

case ${1:-} in
    '') [[ -z $(git status --porcelain) ]] || fail 'there are changes that are not committed; commit them, or give --allow-dirty' ;;
    --allow-dirty) ;;
    *) fail "unknown flag $1; there is only --allow-dirty" ;;
esac
maturin=$(scripts/find-maturin.sh) || fail 'maturin is not there and cannot be installed; `pip install maturin`'
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
target=$(rustc -vV | sed -n 's/^host: //p')
dist=target/dist
name=noisescale-$version-$target
rm -rf "$dist"
mkdir -p "$dist/$name"

step "program, $version for $target"
cargo build --release --locked
program=target/release/noisescale
said=$("$program" --version)
[[ $said == "noisescale $version" ]] || fail "it says \`$said\`, not noisescale $version"

step 'tarball'
cp "$program" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$dist/$name/"
"$program" man --out "$dist/$name/man/man1"
mkdir "$dist/$name/completions"
for shell in bash zsh fish powershell elvish; do
    "$program" completions "$shell" >"$dist/$name/completions/noisescale.$shell"
done
# The same input gives the same archive: names in order, no owner, the time of the last commit.
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" \
    --directory "$dist" "$name" | gzip --no-name >"$dist/$name.tar.gz"
rm -r "${dist:?}/$name"

step 'wheel'
"$maturin" build --release --out "$dist"

step 'trying the tarball'
trial=$(mktemp -d "$PWD/target/release-trial.XXXXXX")
trap 'rm -rf "$trial"' EXIT
tar --extract --gzip --file "$dist/$name.tar.gz" --directory "$trial"
unpacked=$trial/$name
[[ -s $unpacked/man/man1/noisescale-run.1 && -s $unpacked/completions/noisescale.bash ]] ||
    fail 'the tarball lacks manual pages or completions'
"$unpacked/noisescale" info --json >/dev/null
(cd "$trial" && "$unpacked/noisescale" run digits-mlp --widths 8,16 --seeds 2 --time-scale 0.01 \
    --device cpu --quiet --json >/dev/null)
[[ -s $trial/runs/digits-mlp/report.html ]] || fail 'no report came of a study'

step 'trying the wheel'
scripts/wheel-test.sh "$dist"/*.whl

(cd "$dist" && sha256sum -- *.tar.gz *.whl | tee SHA256SUMS)
