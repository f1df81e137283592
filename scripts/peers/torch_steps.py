#!/usr/bin/env python3
"""PyTorch's training steps, asked for by peers.py.

usage: torch_steps.py eager | fused | compiled

eager     torch.optim.SGD as it loops over the parameters one by one
fused     torch.optim.SGD(fused=True)
compiled  torch.compile of forward pass and loss, with fused SGD
"""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import start
import worker

MOMENTUM = 0.9
TRIAL_SECONDS = 0.5
TRIAL_STEPS = 50


class Residual(nn.Module):
    """body(y) + shortcut(y)."""

    def __init__(self, body, shortcut):
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, y):
        return self.body(y) + self.shortcut(y)


class GlobalAveragePool(nn.Module):
    def forward(self, y):
        return y.mean(dim=(2, 3))


def sequence(layers):
    return nn.Sequential(*map(module, layers))


def module(layer):
    match layer["kind"]:
        case "dense":
            return nn.Linear(layer["inputs"], layer["units"], layer["bias"])
        case "conv":
            return nn.Conv2d(
                layer["inputs"],
                layer["channels"],
                layer["kernel"],
                layer["stride"],
                layer["padding"],
                bias=layer["bias"],
            )
        case "norm":
            # A dense layer's norm sees (B, C), a convolution's (B, C, H, W).
            return BatchNorm(layer["channels"])
        case "relu":
            return nn.ReLU()
        case "max-pool":
            return nn.MaxPool2d(2)
        case "global-average-pool":
            return GlobalAveragePool()
        case "flatten":
            return nn.Flatten()
        case "residual":
            return Residual(sequence(layer["body"]), sequence(layer["shortcut"]))


class BatchNorm(nn.modules.batchnorm._BatchNorm):
    """Of one or two dimensions, whichever comes."""

    def _check_input_dim(self, y):
        pass


def initialize(network):
    """The weights that all contestants start from; biases 0, norms 1 and 0."""
    tensor = 0
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, (nn.Linear, nn.Conv2d)):
                layer.weight.copy_(
                    torch.from_numpy(start.weight(tensor, tuple(layer.weight.shape)))
                )
                tensor += 1
                if layer.bias is not None:
                    layer.bias.zero_()


class Trainer:
    """One network in one memory format with its optimizer."""

    def __init__(self, request, mode, memory_format):
        network = sequence(request["layers"])
        initialize(network)
        network.to(memory_format=memory_format).train()
        self.parameters = sum(p.numel() for p in network.parameters())
        self.batches = [batch(i, request, memory_format) for i in range(start.BATCHES)]

        def loss(inputs, labels):
            return F.cross_entropy(network(inputs), labels)

        self.loss = torch.compile(loss, fullgraph=True) if mode == "compiled" else loss
        how = {"foreach": False} if mode == "eager" else {"fused": True}
        self.sgd = torch.optim.SGD(
            network.parameters(), lr=1.0, momentum=MOMENTUM, nesterov=True, **how
        )
        self.step = 0

    def advance(self, learning_rate):
        inputs, labels = self.batches[self.step % len(self.batches)]
        self.sgd.param_groups[0]["lr"] = learning_rate
        loss = self.loss(inputs, labels)
        self.sgd.zero_grad(set_to_none=True)
        loss.backward()
        self.sgd.step()
        self.step += 1
        return [loss.detach()]

    def restart(self):
        """Forgets the steps that were taken at learning rate 0."""
        self.sgd.state.clear()
        self.step = 0


def batch(index, request, memory_format):
    """Inputs (B, C, H, W) and labels (B)."""
    inputs, labels = start.batch(index, request["batch"], request["input"], request["classes"])
    inputs = torch.from_numpy(inputs).permute(0, 3, 1, 2)
    return inputs.contiguous(memory_format=memory_format), torch.from_numpy(labels)


def faster(trainers):
    """The one whose quickest step of a short trial is the quicker."""
    best = [float("inf")] * len(trainers)
    for trainer in trainers:
        trainer.advance(0.0)
    begin, rounds = time.perf_counter(), 0
    while rounds < 2 or (time.perf_counter() - begin < TRIAL_SECONDS and rounds < TRIAL_STEPS):
        for at, trainer in enumerate(trainers):
            before = time.perf_counter()
            trainer.advance(0.0)
            best[at] = min(best[at], time.perf_counter() - before)
        rounds += 1
    winner = trainers[best.index(min(best))]
    winner.restart()
    return winner


def prepare(request, mode):
    """Convolutional networks run in the memory format that suits them: channels
    first is faster for the few channels of a narrow LeNet, channels last for the rest."""
    torch._dynamo.reset()
    formats = [torch.contiguous_format]
    if any(layer["kind"] == "conv" for layer in request["layers"]):
        formats.append(torch.channels_last)
    return faster([Trainer(request, mode, each) for each in formats])


def main():
    torch.set_num_threads(1)
    mode = sys.argv[1]
    worker.serve(torch.__version__, lambda request: prepare(request, mode))


if __name__ == "__main__":
    main()
