#!/usr/bin/env bash
# Draws the figures of docs/RESULTS.md anew, from the ledgers beside them: docs/results/figures/*.png.
#
# A figure's name says which it is: STUDY-law, STUDY-scan, STUDY-batch-sizes and STUDY-noise (of a
# grid), stability-… (failed runs) and stability-…-diverged, schemes-STUDY (std-STUDY against
# STUDY), and agreement-STUDY with agreement-STUDY-peaks (STUDY-rates against STUDY). NOISESCALE names
# the program; without it, it is built.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${NOISESCALE:-}
if [[ -z $program ]]; then
    cargo build --quiet
    program=${CARGO_TARGET_DIR:-target}/debug/noisescale
fi
results=docs/results
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A study's folder as `report` wants it.
unpacked() {
    local study=$1
    if [[ ! -d $work/$study ]]; then
        mkdir -p "$work/$study/records"
        cp "$results/$study/study.toml" "$work/$study/"
        gunzip -c "$results/$study/records.jsonl.gz" >"$work/$study/records/h200.jsonl"
    fi
    echo "$work/$study"
}

# The figures of one study, or of several together.
figures_of() {
    local study folders=() out
    out=$work/figures/$(printf '%s+' "$@")
    if [[ ! -d $out ]]; then
        for study in "$@"; do folders+=("$(unpacked "$study")"); done
        "$program" report "${folders[@]}" --out "$out" >/dev/null
    fi
    echo "$out/figures"
}

# The first figure that a pattern names.
only() {
    local folder=$1 pattern=$2 found
    found=$(find "$folder" -name "$pattern.png" | sort | head -n 1)
    [[ -n $found ]] || { echo "no figure $pattern in $folder" >&2 && return 1; }
    echo "$found"
}

for picture in "$results"/figures/*.png; do
    name=$(basename "$picture" .png)
    case $name in
        schemes-*) found=$(only "$(figures_of "${name#schemes-}" "std-${name#schemes-}")" 'schemes-*') ;;
        agreement-*-peaks)
            study=${name#agreement-}
            study=${study%-peaks}
            found=$(only "$(figures_of "$study" "$study-rates")" 'agreement-peak-accuracy-*')
            ;;
        agreement-*)
            found=$(only "$(figures_of "${name#agreement-}" "${name#agreement-}-rates")" 'agreement-noise-*') ;;
        stability-*-diverged)
            found=$(only "$(figures_of "${name%-diverged}")" 'stability-diverged-runs-against-rate-stability-*') ;;
        stability-*)
            found=$(only "$(figures_of "$name")" 'stability-diverged-or-stalled-runs-against-rate-stability-*') ;;
        *-law) found=$(only "$(figures_of "${name%-law}")" 'law-*') ;;
        *-batch-sizes) found=$(only "$(figures_of "${name%-batch-sizes}")" 'grid-*-against-batch-size-*') ;;
        *-noise) found=$(only "$(figures_of "${name%-noise}")" 'grid-*-against-noise-scale-*') ;;
        std-bn-*-scan) found=$(only "$(figures_of "${name%-scan}")" 'scan-*-against-batch-size-*') ;;
        std-*-scan) found=$(only "$(figures_of "${name%-scan}")" 'scan-*-against-width-rate-over-batch-*') ;;
        *-rates-scan) found=$(only "$(figures_of "${name%-scan}")" 'scan-*-against-learning-rate-*') ;;
        *-scan) found=$(only "$(figures_of "${name%-scan}")" 'scan-*-against-batch-size-*') ;;
        *) echo "$picture: a name that no rule knows" >&2 && exit 1 ;;
    esac
    if ! cmp -s "$found" "$picture"; then
        cp "$found" "$picture"
        echo "drawn anew: $picture"
    fi
done
