#!/usr/bin/env python3
"""Rebuilds the network of a trace in PyTorch, takes the same steps, and compares.

Usage: check_trace.py TRACE.safetensors [--verbose]
Needs: pip install torch safetensors numpy

The network is built from the trace's metadata alone, as docs/TRACE.md describes it,
and trained twice, in double and in single precision. Large learning rates blow a
rounding error up at every step, so a fixed tolerance would say nothing about them:
the engine may be as far from double precision as 1e-4, or as a few times what
single-precision PyTorch itself is. Exits 1 if a loss or a final tensor is farther.
"""
import json
import sys

import torch
import torch.nn.functional as F
from safetensors import safe_open

TOLERANCE = 1e-4
# Two roundings of one chaotic path drift apart at the same pace, not in step.
SLACK = 20.0


class Rebuilt:
    """The network of a trace, over a dictionary of named tensors."""

    def __init__(self, network, run, tensors, dropout):
        self.layers = network["layers"]
        self.ntk = run["setting"]["scheme"] == "ntk"
        self.tensors = tensors
        self.dropout = dropout
        self.masks = None

    def scale(self, weight):
        fan_in = weight[0].numel()
        return fan_in**-0.5 if self.ntk else 1.0

    def forward(self, x, step):
        self.masks = (masks[step] for masks in self.dropout)
        return self.chain(self.layers, x)

    def chain(self, layers, x):
        for layer in layers:
            x = self.layer(layer, x)
        return x

    def layer(self, layer, x):
        kind = layer["kind"]
        if kind == "dense":
            weight, bias = self.affine(layer)
            return self.scale(weight) * F.linear(x.flatten(1), weight, bias)
        if kind == "conv":
            weight, bias = self.affine(layer)
            z = F.conv2d(x, weight, bias, layer["stride"], layer["padding"])
            return self.scale(weight) * z
        if kind == "batch-norm":
            named = {k: self.tensors[f"{layer['name']}.{k}"] for k in ("mean", "variance", "scale", "shift")}
            return F.batch_norm(
                x, named["mean"], named["variance"], named["scale"], named["shift"],
                training=True, momentum=0.1, eps=1e-5,
            )
        if kind == "relu":
            return F.relu(x)
        if kind == "max-pool":
            return F.max_pool2d(x, layer["size"])
        if kind == "average-pool":
            return F.avg_pool2d(x, layer["size"])
        if kind == "global-average-pool":
            return x.mean((2, 3))
        if kind == "dropout":
            return x * next(self.masks).view_as(x)
        if kind == "residual":
            return self.chain(layer["body"], x) + self.chain(layer["shortcut"], x)
        raise ValueError(f"unknown layer kind {kind}")

    def affine(self, layer):
        return self.tensors[f"{layer['name']}.weight"], self.tensors.get(f"{layer['name']}.bias")


class Trace:
    """A trace file."""

    def __init__(self, path):
        with safe_open(path, "pt") as file:
            meta = file.metadata()
            self.stored = {name: file.get_tensor(name) for name in file.keys()}
        self.run, self.network = json.loads(meta["run"]), json.loads(meta["network"])
        self.learned = [p["name"] for p in json.loads(meta["parameters"])]

    def train(self, dtype):
        """Losses and final tensors of the same steps in PyTorch."""
        stored, setting = self.stored, self.run["setting"]
        tensors = {n[5:]: t.to(dtype).clone() for n, t in stored.items() if n.startswith("init.")}
        for name in self.learned:
            tensors[name].requires_grad_(True)
        count = sum(name.startswith("dropout.") for name in stored)
        dropout = [stored[f"dropout.{i}"].to(dtype) for i in range(count)]
        net = Rebuilt(self.network, self.run, tensors, dropout)
        momentum = setting["optimizer"]["momentum"]
        descent = torch.optim.SGD(
            [tensors[name] for name in self.learned],
            lr=self.run["learning_rate"], momentum=momentum,
            nesterov=setting["optimizer"]["rule"] == "nesterov" and momentum > 0,
        )
        smoothing = setting["regularizers"]["label_smoothing"]
        losses = []
        for step in range(len(stored["loss"])):
            logits = net.forward(stored["inputs"][step].to(dtype), step)
            loss = F.cross_entropy(logits, stored["labels"][step], label_smoothing=smoothing)
            descent.zero_grad()
            loss.backward()
            descent.step()
            losses.append(loss.item())
        return losses, {name: tensor.detach().double() for name, tensor in tensors.items()}


def apart(tensor, reference):
    return ((tensor - reference).norm() / reference.norm().clamp_min(1e-12)).item()


def main():
    path, verbose = sys.argv[1], "--verbose" in sys.argv
    trace = Trace(path)
    losses, tensors = trace.train(torch.float64)
    single_losses, single_tensors = trace.train(torch.float32)
    agree, worst, drift = True, 0.0, 0.0
    for step, (ours, double, single) in enumerate(zip(trace.stored["loss"].tolist(), losses, single_losses)):
        off = abs(ours - double) / abs(double)
        drift = max(drift, abs(single - double) / abs(double))
        agree &= off <= max(TOLERANCE, SLACK * drift)
        worst = max(worst, off)
        if verbose:
            print(f"step {step}: loss {ours:.6f}, PyTorch {double:.6f}, off {off:.1e}, single precision off {drift:.1e}")
    farthest = 0.0
    for name, double in tensors.items():
        off = apart(trace.stored[f"final.{name}"].double(), double)
        agree &= off <= max(TOLERANCE, SLACK * apart(single_tensors[name], double))
        farthest = max(farthest, off)
    print(
        f"{path}: {len(losses)} steps, {len(tensors)} tensors: losses within {worst:.1e} relative"
        f" (PyTorch in single precision {drift:.1e}), tensors within {farthest:.1e} of their norm"
    )
    if not agree:
        sys.exit(
            "the trace and PyTorch part ways; at a large learning rate one flipped ReLU is enough"
            " for that, so repeat with a tenth of the rate before you suspect either"
        )


if __name__ == "__main__":
    main()
