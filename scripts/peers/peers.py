#!/usr/bin/env python3
"""Measures training steps of this program and of other frameworks, taking turns.

usage: peers.py [--only TEXT] [--seconds S] [--rounds N] [--skip NAMES] [--json FILE]

run.sh prepares what this needs and starts it on one core. The networks and
batch sizes are those of `noisescale bench --json`. For each of them every
contestant is prepared and checked: its number of parameters must be ours, and
its losses must be those of the other contestants, who start from the same
weights and data, and must fall. Then all are measured in turn, several times
over, and the fastest counts: other work on the machine only slows things down.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import networks

HERE = Path(__file__).resolve().parent
OURS = "noisescale"
JAX = "jax"
EAGER = "torch-eager"

CHECK_RATE = 1e-3
# So small that numbers stay ordinary however long it takes.
MEASURE_RATE = 1e-6
# The batches take turns by four: the fifth loss is of the first batch again.
CHECK_STEPS = 5
TOLERANCE = 1e-3


class Failure(Exception):
    """What a contestant cannot do, or does wrong."""


class Contestant:
    """A process that answers requests, as worker.py tells."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.version = self.answer()["version"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"{self.name} ended with status {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(f"{self.name}: {answer['error']}")
        return answer

    def ask(self, **request):
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # the missing answer tells
        return self.answer()

    def prepare(self, case, layers):
        """The losses of the first steps."""
        network = case["network"]
        made = self.ask(
            do="prepare",
            layers=layers,
            input=network["input"],
            classes=network["classes"],
            batch=case["batch"],
        )
        if made["parameters"] != network["parameters"]:
            raise Failure(
                f"{self.name} has {made['parameters']} parameters, not {network['parameters']}"
            )
        losses = self.ask(do="check", steps=CHECK_STEPS, learning_rate=CHECK_RATE)["losses"]
        if not losses[-1] < losses[0]:
            raise Failure(f"{self.name}: the loss does not fall: {losses}")
        return losses

    def measure(self, seconds):
        """Steps per second."""
        return self.ask(do="measure", seconds=seconds, learning_rate=MEASURE_RATE)[
            "steps_per_second"
        ]

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended already
        self.process.wait()


class Ours:
    """The program, run anew for every measurement."""

    def __init__(self, program):
        self.program = program

    def bench(self, only, seconds):
        command = [self.program, "bench", "--json", "--threads", "1"]
        command += ["--only", only, "--seconds", str(seconds)]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    def measure(self, name, seconds):
        rows = self.bench(name, seconds)["cases"]
        return next(row["steps_per_second"] for row in rows if row["name"] == name)


def commands():
    """How each peer is started; run.sh says where the programs are."""
    python, rust = sys.executable, Path(os.environ["NOISESCALE_PEERS_RUST"])
    torch = [python, HERE / "torch_steps.py"]
    return {
        EAGER: [*torch, "eager"],
        "torch-fused": [*torch, "fused"],
        "torch-compiled": [*torch, "compiled"],
        JAX: [python, HERE / "jax_steps.py"],
        "burn": [rust / "peer-burn"],
        "candle": [rust / "peer-candle"],
    }


def started(skip):
    """The peers that start."""
    for name, command in commands().items():
        try:
            if name not in skip:
                yield Contestant(name, command)
        except (Failure, OSError) as failure:
            warn(f"left out: {failure}")


def warn(message):
    print(f"peers: {message}", file=sys.stderr, flush=True)


def agree(reference, losses):
    return all(abs(a - b) <= TOLERANCE * abs(a) for a, b in zip(reference, losses))


def ready(contestants, case):
    """Those that can take part in this case."""
    layers = networks.layers(case["network"])
    fit, reference = [], None
    for contestant in contestants:
        try:
            losses = contestant.prepare(case, layers)
            if reference and not agree(reference, losses):
                raise Failure(f"{contestant.name}: losses {losses} are not {reference}")
            reference = reference or losses
            fit.append(contestant)
        except Failure as failure:
            warn(f"{case['name']}: left out: {failure}")
    return fit


def measure(case, ours, contestants, args):
    """Steps per second of each contestant in its fastest round, by name."""
    fit = ready(contestants, case)
    rates = {OURS: [], **{contestant.name: [] for contestant in fit}}
    for _ in range(args.rounds):
        rates[OURS].append(ours.measure(case["name"], args.seconds))
        for contestant in fit:
            try:
                rates[contestant.name].append(contestant.measure(args.seconds))
            except Failure as failure:
                warn(f"{case['name']}: {failure}")
    return {name: max(each) for name, each in rates.items() if each}


def best_peer(rates):
    """The fastest contestant but ours; None when we are alone."""
    return max((name for name in rates if name != OURS), key=rates.get, default=None)


def ratio(rates, peer):
    """Our steps per second over a peer's."""
    return rates[OURS] / rates[peer] if peer in rates else None


def header(names):
    cells = "".join(f"{name:>15}" for name in names)
    return f"{'steps/s':14}{cells}   ours over: {'JAX':>5} {'eager':>6} {'best':>6}"


def line(case, names, rates):
    cells = "".join(f"{number(rates.get(name)):>15}" for name in names)
    best = best_peer(rates)
    jax, eager, most = (times(ratio(rates, peer)) for peer in (JAX, EAGER, best))
    return f"{case['name']:14}{cells}{jax:>20} {eager:>6} {most:>6} {best or ''}"


def number(rate):
    if rate is None:
        return "-"
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def times(ratio):
    return "-" if ratio is None else f"{ratio:.2f}"


def result(case, rates):
    best = best_peer(rates)
    return {
        "name": case["name"],
        "steps_per_second": rates,
        "best_peer": best,
        "ours_over_best": ratio(rates, best),
        "ours_over_jax": ratio(rates, JAX),
        "ours_over_eager": ratio(rates, EAGER),
    }


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="networks whose name holds this")
    parser.add_argument("--seconds", type=float, default=1.0, help="time of one measurement")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each contestant")
    parser.add_argument(
        "--skip", default="", metavar="NAMES", help="peers to leave out: burn,candle"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here too")
    args = parser.parse_args()
    args.skip = {name for name in args.skip.split(",") if name}
    unknown = args.skip - commands().keys()
    if unknown:
        parser.error(f"--skip: no {', '.join(sorted(unknown))}; peers are {', '.join(commands())}")
    if args.rounds < 1 or args.seconds <= 0:
        parser.error("--rounds must be at least 1 and --seconds above 0")
    return args


def main():
    args = arguments()
    ours = Ours(os.environ["NOISESCALE"])
    known = ours.bench(args.only, 0.001)
    if not known["cases"]:
        sys.exit(f"peers: no network's name holds `{args.only}`; see `noisescale bench`")
    contestants = list(started(args.skip))
    names = [OURS, *(contestant.name for contestant in contestants)]
    print(header(names), flush=True)
    results = []
    for case in known["cases"]:
        rates = measure(case, ours, contestants, args)
        print(line(case, names, rates), flush=True)
        results.append(result(case, rates))
    for contestant in contestants:
        contestant.close()
    versions = {contestant.name: contestant.version for contestant in contestants}
    print("\n" + ", ".join(f"{name} {version}" for name, version in versions.items()))
    if args.json:
        report = {
            "version": 1,
            "isa": known["isa"],
            "seconds": args.seconds,
            "rounds": args.rounds,
            "peers": versions,
            "cases": results,
        }
        args.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
