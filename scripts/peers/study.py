#!/usr/bin/env python3
"""What a study's runs would cost as cohorts in JAX, from some of its points.

usage: study.py DIR [--noisescale PROGRAM] [--hidden N] [--replicas R] [--precision tf32|fp32]

DIR is the folder of a perceptrons' study on 28×28 images. Steps that were trained are taken
from its ledger. JAX (jit, scan, vmap over R replicas) is measured at a few widths and batch
sizes that span the study's; between them the logarithm of a step's time is interpolated
linearly in the logarithms of both. Evaluations, compilation and the host's part are left out.
"""

import argparse
import csv
import io
import math
import subprocess
from bisect import bisect_right
from collections import Counter

import networks
from cohorts import Cohort
from gpu import Framework


def steps_by_point(program, folder):
    """Steps that were trained, by width and batch size."""
    command = [program, "export", folder]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    steps = Counter()
    for row in csv.DictReader(io.StringIO(text)):
        steps[int(row["width"]), int(row["batch_size"])] += int(row["steps_trained"])
    return steps


def knots(values, count):
    """The ends of a list of values, and some between."""
    values = sorted(set(values))
    count = min(count, len(values))
    return sorted({values[round(i * (len(values) - 1) / max(1, count - 1))] for i in range(count)})


def measure(framework, width, batch, args):
    """Seconds per step of one replica."""
    network = Cohort("", "mlp", width, batch, args.replicas, hidden=args.hidden).network()
    answer = framework.ask(
        300,
        do="measure",
        contestant="jax",
        layers=networks.layers(network),
        input=network["input"],
        batch=batch,
        replicas=args.replicas,
        precision=args.precision,
        device="cuda",
        seconds=args.seconds,
    )
    return answer["seconds"]


def between(knots, value):
    """The knots around a value, and how far it lies between them, by logarithms."""
    if len(knots) == 1:
        return knots[0], knots[0], 0.0
    at = min(max(bisect_right(knots, value), 1), len(knots) - 1)
    low, high = knots[at - 1], knots[at]
    return low, high, math.log(value / low) / math.log(high / low)


def interpolated(times, widths, batches, width, batch):
    left, right, x = between(widths, width)
    low, high, y = between(batches, batch)
    ends = [(left, low, (1 - x) * (1 - y)), (right, low, x * (1 - y))]
    ends += [(left, high, (1 - x) * y), (right, high, x * y)]
    return math.exp(sum(part * math.log(times[w, b]) for w, b, part in ends))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--noisescale", default="target/release/noisescale")
    parser.add_argument("--hidden", type=int, default=1)
    parser.add_argument("--replicas", type=int, default=20)
    parser.add_argument("--precision", choices=["tf32", "fp32"], default="tf32")
    parser.add_argument("--seconds", type=float, default=0.3)
    args = parser.parse_args()
    steps = steps_by_point(args.noisescale, args.folder)
    widths = knots([width for width, _ in steps], 3)
    batches = knots([batch for _, batch in steps], 4)
    framework = Framework("jax_cohorts.py", "cuda")
    times = {}
    for width in widths:
        for batch in batches:
            times[width, batch] = measure(framework, width, batch, args)
            print(f"w {width} B {batch}: {1e6 * times[width, batch]:.2f} µs per run and step", flush=True)
    framework.end()
    total = sum(
        count * interpolated(times, widths, batches, *point) for point, count in steps.items()
    )
    print(f"{sum(steps.values()) / 1e6:.1f} million steps would take JAX {total:.0f} s")


if __name__ == "__main__":
    main()
