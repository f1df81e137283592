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
FEWEST_SLICES = 2


def serve(version, prepare):
    """Answers until the input ends.

    `prepare(request)` gives a trainer with `parameters` (their number) and
    `advance(learning_rate)`, which takes some steps and returns their losses.
    """
    trainer = None

    def answer(request):
        nonlocal trainer
        match request["do"]:
            case "prepare":
                trainer = None
                trainer = prepare(request)
                return {"parameters": trainer.parameters}
            case "check":
                return {"losses": check(trainer, request["steps"], request["learning_rate"])}
            case "measure":
                return measure(trainer, request["seconds"], request["learning_rate"])

    answer_lines(version, answer)


def answer_lines(version, answer):
    """Says the version, then answers each line of the input by `answer(request)`."""
    # Whatever a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(answer):
        print(json.dumps(answer), file=answers)

    say({"version": version})
    for line in sys.stdin:
        try:
            say(answer(json.loads(line)))
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


def fastest(run, seconds):
    """Seconds of one call in the fastest of many short slices. `run(n)` makes n
    calls and waits for the last; two calls go before, to warm up and to size a slice."""
    run(1)
    begin = time.perf_counter()
    run(1)
    once = time.perf_counter() - begin
    calls = max(1, round(seconds / SLICES / once))
    best, slices, end = float("inf"), 0, time.perf_counter() + seconds
    while slices < FEWEST_SLICES or time.perf_counter() < end:
        begin = time.perf_counter()
        run(calls)
        best = min(best, (time.perf_counter() - begin) / calls)
        slices += 1
    return best
