#!/usr/bin/env python3
"""Trains small networks in PyTorch and writes what came of them, for the engine to match.

usage: make.py [FOLDER]     (default: crates/engine/tests/goldens)

Each case is 20 steps of SGD in double precision. The networks are written out
in networks.py; inputs, labels, initial values and dropout masks come from
formula.py, which both sides compute. A case keeps its losses and, of every
tensor at the end, its norm, how far it moved, two sums and a few of its values.

Needs PyTorch and NumPy: pip install torch numpy
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import formula
import networks

STEPS = 20
SAMPLE = 16
DEFAULT = Path(__file__).resolve().parents[2] / "crates/engine/tests/goldens"

MLP = {
    "family": {"kind": "mlp", "hidden": [1, 1]},
    "width": 24,
    "input": {"height": 8, "width": 8, "channels": 1},
}
LENET = {"width": 1, "input": {"height": 28, "width": 28, "channels": 1}}
MAX = {"family": {"kind": "cnn", "pool": "max"}, **LENET}
AVERAGE = {"family": {"kind": "cnn", "pool": "average"}, **LENET}
WRN = {
    "family": {"kind": "wrn", "blocks": 1},
    "width": 1,
    "input": {"height": 8, "width": 8, "channels": 3},
}
NESTEROV = {"rule": "nesterov", "momentum": 0.9}
HEAVY_BALL = {"rule": "heavy-ball", "momentum": 0.9}
PLAIN = {"rule": "nesterov", "momentum": 0.0}
# The seed has a high word, and the steps cross into theirs.
REGULARIZED = {
    "dropout": 0.3,
    "label_smoothing": 0.1,
    "seed": 0x1234_5678_9ABC,
    "first_step": 2**32 - 10,
}


def case(name, base, forward, learning_rate, optimizer=NESTEROV, **changes):
    """One training: its recipe, as the engine's test reads it, and its network."""
    recipe = {
        **base,
        "scheme": "ntk" if "ntk" in name else "standard",
        "batch_norm": False,
        "dropout": 0.0,
        "label_smoothing": 0.0,
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "seed": 0,
        "first_step": 0,
        **changes,
    }
    return {"name": name, "recipe": recipe, "forward": forward}


def cases():
    """Every case, by the file that it goes to."""
    largest, mean = networks.cnn(F.max_pool2d), networks.cnn(F.avg_pool2d)
    return {
        "mlp.json": [
            case("mlp-standard", MLP, networks.mlp, 0.02),
            case("mlp-ntk", MLP, networks.mlp, 0.5),
            case("mlp-standard-heavy-ball", MLP, networks.mlp, 0.02, HEAVY_BALL),
            case("mlp-ntk-plain", MLP, networks.mlp, 4.0, PLAIN),
        ],
        "cnn.json": [
            case("cnn-max-standard", MAX, largest, 0.01),
            case("cnn-max-ntk", MAX, largest, 0.5),
            case("cnn-average-standard", AVERAGE, mean, 0.024),
            case("cnn-average-ntk", AVERAGE, mean, 1.0),
        ],
        "wrn.json": [
            case("wrn-standard", WRN, networks.wrn, 0.005),
            case("wrn-ntk", WRN, networks.wrn, 0.4),
            case("wrn-norm-standard", WRN, networks.wrn, 0.02, batch_norm=True),
            case("wrn-norm-ntk", WRN, networks.wrn, 0.32, batch_norm=True),
            case("wrn-regularized-standard", WRN, networks.wrn, 0.004, **REGULARIZED),
            case("wrn-regularized-ntk", WRN, networks.wrn, 0.3, **REGULARIZED),
        ],
    }


def descent(net, recipe):
    """PyTorch's own SGD with the recipe's optimizer."""
    momentum = recipe["optimizer"]["momentum"]
    nesterov = recipe["optimizer"]["rule"] == "nesterov" and momentum > 0
    return torch.optim.SGD(
        net.parameters.values(), lr=recipe["learning_rate"], momentum=momentum, nesterov=nesterov
    )


def train(recipe, forward, disturb=lambda values: values):
    """The golden values of one case, from initial values that may be disturbed."""
    shape = recipe["input"]
    inputs = formula.inputs(shape["channels"], shape["height"], shape["width"])
    inputs, labels = torch.tensor(inputs), torch.tensor(formula.labels())
    variant = [recipe[key] for key in ("scheme", "batch_norm", "dropout", "seed")]
    net = networks.Layers(*variant, disturb)
    # A pass that leaves no trace but the parameters and statistics themselves.
    forward(net, inputs)
    tensors = {**net.parameters, **net.running}
    before = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    optimizer = descent(net, recipe)
    losses = []
    for step in range(STEPS):
        net.training, net.step, net.dropouts = True, recipe["first_step"] + step, 0
        chosen = formula.batch(step)
        loss = F.cross_entropy(
            forward(net, inputs[chosen]), labels[chosen], label_smoothing=recipe["label_smoothing"]
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    net.training = False
    with torch.no_grad():
        evaluation = F.cross_entropy(forward(net, inputs), labels).item()
    return {
        "losses": [digits(loss) for loss in losses],
        "evaluation_loss": digits(evaluation),
        "tensors": [sketch(name, before[name], after) for name, after in tensors.items()],
    }


def check_steady(name, recipe, forward, result):
    """Refuses a case that rounding may push over a kink.

    The gradient jumps where an activation passes 0 or another of its pool's
    window, and the network is then a different one by far more than rounding
    is. Changes a few times as large as rounding errors must not bring that about.
    """
    random = np.random.default_rng(0)
    expected = np.array([*result["losses"], result["evaluation_loss"]])
    for _ in range(10):
        other = train(
            recipe, forward, lambda values: values * (1 + 5e-7 * random.standard_normal(values.shape))
        )
        got = np.array([*other["losses"], other["evaluation_loss"]])
        worst = np.abs(got / expected - 1).max()
        if worst > 4e-6:
            sys.exit(f"{name}: losses change by {worst:.1e}; try another learning rate")


def sketch(name, before, after):
    """What is kept of a tensor: enough to tell it from any other."""
    shape = list(after.shape)
    before, after = (tensor.detach().numpy().reshape(-1) for tensor in (before, after))
    size = after.size
    places = np.arange(size) if size <= SAMPLE else (7919 * np.arange(SAMPLE) + 13) % size
    return {
        "name": name,
        "shape": shape,
        "norm": digits(np.linalg.norm(after)),
        "moved": digits(np.linalg.norm(after - before)),
        "sum": digits(after.sum()),
        # A sum that no exchange of values leaves as it is.
        "weighted_sum": digits((after * formula.noise(97, size)).sum()),
        "sample": [digits(value) for value in after[places]],
    }


def digits(value):
    """Nine of them: as many as single precision holds."""
    return float(f"{value:.8e}")


def write(path, cases):
    """One line per tensor, so that a difference can be read."""
    lines = []
    for case in cases:
        result = train(case["recipe"], case["forward"])
        losses = result["losses"]
        assert all(map(math.isfinite, losses)) and losses[-1] < 0.7 * losses[0], case["name"]
        check_steady(**case, result=result)
        print(f"{case['name']:28} loss {losses[0]:.4f} to {losses[-1]:.4f}")
        tensors = ",\n".join(f"   {json.dumps(tensor)}" for tensor in result.pop("tensors"))
        head = {"name": case["name"], "recipe": case["recipe"], **result}
        head = ",\n".join(f"  {json.dumps(key)}: {json.dumps(head[key])}" for key in head)
        lines.append(f' {{\n{head},\n  "tensors": [\n{tensors}\n  ]\n }}')
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    formula.check_philox()
    for name, group in cases().items():
        write(folder / name, group)


if __name__ == "__main__":
    main()
