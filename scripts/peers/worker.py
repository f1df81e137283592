"""A contestant's side of the conversation with peers.py: one JSON object per line.

    {"do": "prepare", "layers": [...], "input": [h, w, c], "classes": n, "batch": n}
        -> {"parameters": n}
    {"do": "check", "steps": n, "learning_rate": x}
        -> {"losses": [...]}
    {"do": "measure", "seconds": x, "learning_rate": x}
        -> {"steps_per_second": x, "loss": x}

The first line that a contestant writes is {"version": "..."}; what goes wrong
is answered with {"error": "..."}.
"""

import json
import os
import sys
import time

SLICES = 25


def serve(version, prepare):
    """Answers until the input ends.

    `prepare(request)` gives a trainer with `parameters` (their number) and
    `advance(learning_rate)`, which takes some steps and returns their losses.
    """
    # Whatever a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(answer):
        print(json.dumps(answer), file=answers)

    say({"version": version})
    trainer = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            match request["do"]:
                case "prepare":
                    trainer = None
                    trainer = prepare(request)
                    say({"parameters": trainer.parameters})
                case "check":
                    say({"losses": check(trainer, request["steps"], request["learning_rate"])})
                case "measure":
                    say(measure(trainer, request["seconds"], request["learning_rate"]))
        except Exception as error:  # the driver decides what a failure means
            say({"error": f"{type(error).__name__}: {error}"})


def check(trainer, steps, learning_rate):
    losses = []
    while len(losses) < steps:
        losses += map(float, trainer.advance(learning_rate))
    return losses[:steps]


def measure(trainer, seconds, learning_rate):
    """The fastest of many short slices, each of whole calls of `advance`, as
    `noisescale bench` takes it; one call before them, to warm up."""
    trainer.advance(learning_rate)
    best, end = 0.0, time.perf_counter() + seconds
    while best == 0.0 or time.perf_counter() < end:
        steps, start, elapsed = 0, time.perf_counter(), 0.0
        while elapsed < seconds / SLICES:
            losses = trainer.advance(learning_rate)
            steps += len(losses)
            elapsed = time.perf_counter() - start
        best = max(best, steps / elapsed)
    return {"steps_per_second": best, "loss": float(losses[-1])}
