#!/usr/bin/env python3
"""Measures cohorts of replicas on one GPU: this program next to JAX and PyTorch.

usage: gpu.py [--noisescale PROGRAM] [--only NAME,NAME] [--precision tf32|fp32|both]
              [--seconds S] [--skip NAMES] [--json FILE]

For each cohort (cohorts.py) every contestant trains it, is checked, and is timed;
the table holds microseconds per step of one replica, the best peer's over ours, the
limit of this machine (limits.py), and the shares of it that ours and the best peer
reach. JAX and PyTorch run in a process each. What one of them cannot do is a dash
with its reason below the row.
"""

import argparse
import dataclasses
import json
import math
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path

import cohorts
import limits
import networks

HERE = Path(__file__).resolve().parent
OURS = "noisescale"
PEERS = {
    "jax": "jax_cohorts.py",
    "torch-eager": "torch_cohorts.py",
    "torch-graph": "torch_cohorts.py",
    "torch-stacked": "torch_cohorts.py",
}
CONTESTANTS = [OURS, *PEERS]
PRECISIONS = ["tf32", "fp32"]
# How much the losses of the first steps may differ between contestants.
TOLERANCE = {"tf32": 2e-2, "fp32": 1e-3}
# A process that keeps more of the GPU's memory than this makes room for the next.
MOST_HELD = 8 << 30
START_SECONDS = 120
LONGEST_REASON = 300


class Failure(Exception):
    """What a contestant cannot do, or does wrong."""


class Framework:
    """A process that answers requests, started when it is needed and again after a failure."""

    def __init__(self, script, device):
        self.script, self.device = script, device
        self.process = self.version = None

    def start(self):
        """Starts it, but does not wait until it is there."""
        environment = os.environ | {
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if self.device == "cpu":
            environment |= {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
            environment["OMP_NUM_THREADS"] = "1"
        self.log = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.process = subprocess.Popen(
            [sys.executable, HERE / self.script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=environment,
        )
        self.greeted = False

    def ask(self, limit, **request):
        """The answer, which must come within `limit` seconds."""
        if self.process is None:
            self.start()
        try:
            if not self.greeted:
                self.version = self.answer(START_SECONDS)["version"]
                self.greeted = True
            print(json.dumps(request), file=self.process.stdin, flush=True)
            answer = self.answer(limit)
        except (Failure, OSError) as failure:
            self.end()
            raise Failure(str(failure)) from failure
        if answer["held_bytes"] > MOST_HELD:
            self.end()
        return answer

    def answer(self, seconds):
        """The next line; there is never more than one, so that none waits in a buffer."""
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise Failure(f"took more than {seconds:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"ended with status {self.process.wait()}: {self.last_words()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failure(answer["error"])
        return answer

    def last_words(self):
        self.log.seek(0)
        lines = self.log.read().split("\n")
        return next((line for line in reversed(lines) if line.strip()), "no message")

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.log.close()
            self.process = None


class Ours:
    """The program, run anew for every measurement."""

    def __init__(self, program):
        self.program = program

    def measure(self, cohort, precision, args):
        """Microseconds per step of one replica."""
        command = [self.program, "bench", "--json", "--device", args.device]
        command += ["--precision", precision, "--replicas", str(cohort.replicas)]
        command += ["--only", cohort.name, "--seconds", str(args.seconds)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=args.limit)
        except subprocess.TimeoutExpired:
            raise Failure(f"took more than {args.limit:.0f} s") from None
        except OSError as error:
            raise Failure(str(error)) from error
        if done.returncode:
            raise Failure(done.stderr.strip() or f"ended with status {done.returncode}")
        return self.read(done.stdout, cohort.name)

    @staticmethod
    def read(text, name):
        """What `bench --json` says of a network; all that is known here of its form."""
        report = json.loads(text)
        rows = report.get("cases", report.get("rows", [])) if isinstance(report, dict) else report
        for row in rows:
            if row["name"] == name:
                return row["microseconds_per_replica_step"]
        raise Failure(f"has no row `{name}`")


def check(answer, layers, precision, reference):
    """Raises a Failure unless this is the network, learns, and has the reference's losses."""
    wanted = networks.parameter_count(layers)
    if answer["parameters"] != wanted:
        raise Failure(f"has {answer['parameters']} parameters, not {wanted}")
    losses = answer["losses"]
    half = len(losses) // 2
    before, after = (sum(map(sum, part)) for part in (losses[:half], losses[half:]))
    if not math.isfinite(before + after) or after >= before:
        raise Failure(f"the loss does not fall: {[mean(step) for step in losses]}")
    pairs = [pair for steps in zip(losses, reference or []) for pair in zip(*steps)]
    apart = max((abs(a - b) / abs(b) for a, b in pairs), default=0.0)
    if apart > TOLERANCE[precision]:
        raise Failure(f"losses are {100 * apart:.1f} % off the first contestant's")


def mean(values):
    return sum(values) / len(values)


class Row:
    """What is known of one cohort in one precision."""

    def __init__(self, cohort, precision, ceilings):
        self.cohort, self.precision = cohort, precision
        self.layers = networks.layers(cohort.network())
        self.microseconds, self.reasons, self.how = {}, {}, {}
        self.limit = self.bound = None
        if ceilings:
            shape = cohort.network()["input"]
            seconds, self.bound = limits.limit(self.layers, shape, cohort.batch, ceilings)
            self.limit = 1e6 * seconds

    def measure(self, ours, frameworks, args):
        reference = None
        for name in args.contestants:
            try:
                if name == OURS:
                    self.microseconds[name] = ours.measure(self.cohort, self.precision, args)
                    continue
                answer = self.ask(name, frameworks[PEERS[name]], args)
                check(answer, self.layers, self.precision, reference)
                reference = reference or answer["losses"]
                self.microseconds[name] = 1e6 * answer["seconds"]
                self.how[name] = answer["how"]
            except Failure as failure:
                self.reasons[name] = " ".join(str(failure).split())[:LONGEST_REASON]

    def ask(self, name, framework, args):
        return framework.ask(
            args.limit,
            do="measure",
            contestant=name,
            layers=self.layers,
            input=self.cohort.network()["input"],
            batch=self.cohort.batch,
            replicas=self.cohort.replicas,
            precision=self.precision,
            device=args.device,
            seconds=args.seconds,
        )

    def best_peer(self):
        peers = {name: time for name, time in self.microseconds.items() if name != OURS}
        return min(peers, key=peers.get, default=None)

    def over_ours(self):
        """The best peer's time over ours."""
        return over(self.microseconds.get(self.best_peer()), self.microseconds.get(OURS))

    def of_limit(self, name):
        """The share of the limit's speed that a contestant reaches."""
        return over(self.limit, self.microseconds.get(name))

    def line(self, contestants):
        cells = "".join(f"{number(self.microseconds.get(name)):>14}" for name in contestants)
        best = self.best_peer()
        shares = "".join(f"{share(self.of_limit(name)):>7}" for name in (OURS, best))
        text = f"{self.cohort.name:14}{self.cohort.replicas:>4}{cells}{times(self.over_ours()):>11}"
        text += f"{number(self.limit):>8} {self.bound or '-':7}{shares}  {best or ''}"
        return text + "".join(f"\n    {name}: {why}" for name, why in self.reasons.items())

    def result(self):
        return {
            "name": self.cohort.name,
            "precision": self.precision,
            "replicas": self.cohort.replicas,
            "batch": self.cohort.batch,
            "microseconds_per_replica_step": self.microseconds,
            "how": self.how,
            "failures": self.reasons,
            "best_peer": self.best_peer(),
            "best_peer_over_ours": self.over_ours(),
            "limit_microseconds": self.limit,
            "limited_by": self.bound,
            "share_of_limit": {name: self.of_limit(name) for name in self.microseconds},
        }


def over(a, b):
    return None if a is None or b is None else a / b


def number(value):
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def times(ratio):
    return "-" if ratio is None else f"{ratio:.2f}"


def share(value):
    return "-" if value is None else f"{100 * value:.0f} %"


def header(contestants):
    cells = "".join(f"{name:>14}" for name in contestants)
    text = f"{'µs per step':14}{'R':>4}{cells}{'best/ours':>11}{'limit':>8} {'by':7}"
    return f"{text}{'ours':>7}{'best':>7}"


def measured_ceilings(frameworks, precision, args):
    """The machine's, or None where PyTorch cannot tell."""
    try:
        ceilings = frameworks["torch_cohorts.py"].ask(
            args.limit, do="ceilings", precision=precision, device=args.device
        )
    except Failure as failure:
        print(f"{precision}: no limits: {failure}", flush=True)
        return None
    rate, bandwidth = ceilings["flops"] / 1e12, ceilings["bandwidth"] / 1e12
    what = f"matmul {rate:.3g} TFLOP/s, copy {bandwidth:.3g} TB/s"
    print(f"{ceilings['machine']}, {precision}: {what}", flush=True)
    return {name: ceilings[name] for name in ("machine", "flops", "bandwidth")}


def chosen(only):
    """The cohorts of which a name, or else a part of it, is given."""
    names = [name for name in only.split(",") if name]
    exact = {cohort.name for cohort in cohorts.COHORTS} & set(names)
    parts = [name for name in names if name not in exact]
    return [
        cohort
        for cohort in cohorts.COHORTS
        if not names or cohort.name in exact or any(part in cohort.name for part in parts)
    ]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--noisescale", metavar="PROGRAM", help="built with its GPU back end")
    parser.add_argument("--only", default="", metavar="NAMES", help="cohorts, or parts of names")
    parser.add_argument("--precision", default="tf32", choices=[*PRECISIONS, "both"])
    parser.add_argument("--seconds", type=float, default=1.5, help="time of one measurement")
    parser.add_argument(
        "--limit", type=float, default=45, help="seconds for one cell, compiling included"
    )
    parser.add_argument("--skip", default="", metavar="NAMES", help=", ".join(CONTESTANTS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here too")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: to try it")
    parser.add_argument("--replicas", type=int, help="instead of each cohort's own number")
    args = parser.parse_args()
    skip = {name for name in args.skip.split(",") if name}
    if skip - set(CONTESTANTS):
        parser.error(f"--skip: contestants are {', '.join(CONTESTANTS)}")
    if args.seconds <= 0 or (args.replicas is not None and args.replicas < 1):
        parser.error("--seconds must be above 0 and --replicas at least 1")
    if not args.noisescale:
        skip.add(OURS)
    args.contestants = [name for name in CONTESTANTS if name not in skip]
    args.cohorts = chosen(args.only)
    if not args.cohorts:
        names = ", ".join(cohort.name for cohort in cohorts.COHORTS)
        parser.error(f"--only: no `{args.only}`; cohorts are {names}")
    if args.replicas:
        args.cohorts = [dataclasses.replace(c, replicas=args.replicas) for c in args.cohorts]
    return args


def write(args, frameworks, ceilings, rows):
    if args.json:
        report = {
            "version": 1,
            "device": args.device,
            "seconds": args.seconds,
            "frameworks": {script: framework.version for script, framework in frameworks.items()},
            "ceilings": ceilings,
            "cohorts": [row.result() for row in rows],
        }
        args.json.write_text(json.dumps(report, indent=2) + "\n")


def main():
    args = arguments()
    # PyTorch measures the ceilings even when it does not compete.
    scripts = {"torch_cohorts.py"} | {PEERS[name] for name in args.contestants if name != OURS}
    frameworks = {script: Framework(script, args.device) for script in sorted(scripts)}
    ours, rows, ceilings = Ours(args.noisescale), [], {}
    try:
        for framework in frameworks.values():
            framework.start()
        for precision in PRECISIONS if args.precision == "both" else [args.precision]:
            ceilings[precision] = measured_ceilings(frameworks, precision, args)
            print(header(args.contestants), flush=True)
            for cohort in args.cohorts:
                row = Row(cohort, precision, ceilings[precision])
                row.measure(ours, frameworks, args)
                rows.append(row)
                print(row.line(args.contestants), flush=True)
                write(args, frameworks, ceilings, rows)
    finally:
        for framework in frameworks.values():
            framework.end()


if __name__ == "__main__":
    main()
