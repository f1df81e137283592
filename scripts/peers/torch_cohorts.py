#!/usr/bin/env python3
"""PyTorch's cohorts, asked for by gpu.py, and the machine's ceilings.

torch-eager    one network, launched operation by operation
torch-graph    one network, four steps recorded as a CUDA graph
torch-stacked  all replicas folded into one network (stacked.py), recorded likewise

All update by torch.optim.SGD(fused=True), whose learning rate is one for all
replicas. Each has its own here by weighing its loss: gradient and velocity are
then ε times themselves, and the parameters take the same steps.
"""

import gc
import warnings

import torch
import torch.nn.functional as F
from torch import nn

import cohorts
import stacked
import start
import torch_steps
import worker

TRIAL_SECONDS = 0.1
# Steps on a side stream before recording, where libraries choose and allocate.
WARM_UP = 3
# Steps of one graph.
UNROLLED = start.BATCHES
CEILING_SECONDS = 0.3


class Trainer:
    """One network, plain or stacked, with its data and optimizer on the device."""

    def __init__(self, request, replicas, network, memory_format):
        device = request["device"]
        self.replicas, self.memory_format = replicas, memory_format
        self.network = network.to(device).to(memory_format=memory_format).train()
        self.parameters = sum(p.numel() for p in network.parameters()) // replicas
        images = torch.from_numpy(cohorts.images(request["input"]))
        self.images = images.permute(0, 3, 1, 2).contiguous().to(device)
        self.labels = torch.from_numpy(cohorts.labels()).to(device)
        # (batch, example, replica): the drawn images are then (B, R·C, H, W).
        choices = torch.from_numpy(cohorts.choices(replicas, request["batch"]))
        self.choices = choices.transpose(1, 2).contiguous().to(device)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.shift = torch.tensor(cohorts.SHIFT, device=device)
        self.rates = torch.zeros(replicas, device=device)
        self.sgd = torch.optim.SGD(
            groups(self.network), momentum=torch_steps.MOMENTUM, nesterov=True, fused=True
        )

    def draw(self):
        """Inputs (B, R·C, H, W), and labels (R, B)."""
        chosen = self.choices.index_select(0, self.at)[0]
        size, replicas = chosen.shape
        images = self.images.index_select(0, chosen.view(-1))
        images = images.view(size, -1, *images.shape[2:])
        inputs = torch.add(self.shift, images, alpha=cohorts.SCALE)
        labels = self.labels.index_select(0, chosen.view(-1)).view(size, replicas).t()
        return inputs.contiguous(memory_format=self.memory_format), labels

    def step(self):
        """Takes one step; the losses (R). Waits for nothing, so that it can be recorded."""
        self.sgd.zero_grad(set_to_none=True)
        inputs, labels = self.draw()
        logits = self.network(inputs).reshape(-1, cohorts.CLASSES)
        losses = F.cross_entropy(logits, labels.reshape(-1), reduction="none")
        losses = losses.view(self.replicas, -1).mean(dim=1)
        losses.backward(self.rates)
        self.sgd.step()
        self.at.add_(1).remainder_(start.BATCHES)
        return losses.detach()

    def set_rates(self, rate):
        self.rates.copy_(torch.from_numpy(cohorts.rates(rate, self.replicas)))

    def restart(self):
        """Forgets the steps that were taken at learning rate 0."""
        self.at.zero_()


def groups(network):
    """The parameters by learning rate: 1 / fan-in (NTK), or 1 for those of a norm."""
    by_rate = {}
    for layer in network.modules():
        own = list(layer.parameters(recurse=False))
        if own:
            by_rate.setdefault(rate(layer), []).extend(own)
    return [{"params": params, "lr": rate} for rate, params in by_rate.items()]


def rate(layer):
    match layer:
        case stacked.Dense() | stacked.Conv():
            return 1 / layer.fan_in
        case nn.Linear() | nn.Conv2d():
            return 1 / layer.weight[0].numel()
    return 1.0


class Eager:
    """Launches every operation of a step."""

    def __init__(self, trainer):
        self.trainer, self.steps = trainer, 1
        for _ in range(WARM_UP):
            trainer.step()
        trainer.restart()

    def run(self, calls):
        """The losses of the last call, (step, replica)."""
        for _ in range(calls):
            losses = self.trainer.step()
        wait(self.trainer.rates.device)
        return losses[None]


class Graph:
    """Replays steps that were recorded once."""

    def __init__(self, trainer):
        self.trainer, self.steps = trainer, UNROLLED
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                trainer.step()
        torch.cuda.current_stream().wait_stream(side)
        trainer.sgd.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.losses = torch.stack([trainer.step() for _ in range(UNROLLED)])
        trainer.restart()

    def run(self, calls):
        """The losses of the last call, (step, replica)."""
        for _ in range(calls):
            self.graph.replay()
        torch.cuda.synchronize()
        return self.losses


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def made(request, memory_format):
    """The contestant with its network in one memory format."""
    layers, name = request["layers"], request["contestant"]
    if name == "torch-stacked":
        replicas = request["replicas"]
        network = stacked.sequence(layers, replicas)
        stacked.initialize(network, replicas)
    else:
        replicas = 1
        network = torch_steps.sequence(layers)
        torch_steps.initialize(network)
    trainer = Trainer(request, replicas, network, memory_format)
    recorded = name != "torch-eager" and request["device"] == "cuda"
    return Graph(trainer) if recorded else Eager(trainer)


def faster(request):
    """The contestant in the memory format that a short trial finds the faster."""
    formats = {"channels first": torch.contiguous_format}
    if any(layer["kind"] == "conv" for layer in request["layers"]):
        formats["channels last"] = torch.channels_last
    best, best_seconds, how, failure = None, float("inf"), "", None
    for name, memory_format in formats.items():
        try:
            tried = made(request, memory_format)
            seconds = worker.fastest(tried.run, TRIAL_SECONDS) / tried.steps
        except RuntimeError as error:  # a layout that cuDNN has nothing for, or no memory
            failure = error
            continue
        if seconds < best_seconds:
            best, best_seconds, how = tried, seconds, name
    if best is None:
        raise failure
    best.trainer.restart()
    return best, how


def measure(request):
    """The losses of the first steps, and the time of a step of one replica."""
    if request["contestant"] == "torch-graph" and request["device"] != "cuda":
        raise RuntimeError("CUDA graphs need a GPU")
    chosen, how = faster(request)
    trainer = chosen.trainer
    trainer.set_rates(cohorts.CHECK_RATE)
    losses = []
    while len(losses) < cohorts.CHECK_STEPS:
        losses += chosen.run(1).tolist()
    trainer.set_rates(cohorts.MEASURE_RATE)
    seconds = worker.fastest(chosen.run, request["seconds"])
    return {
        "parameters": trainer.parameters,
        "losses": losses,
        "seconds": seconds / (chosen.steps * trainer.replicas),
        "how": how,
    }


def ceilings(request):
    """Operations per second of a large matrix product, bytes per second of a copy."""
    device = request["device"]
    side, count = (8192, 10**9) if device == "cuda" else (256, 10**6)
    left, right = (torch.randn(side, side, device=device) for _ in range(2))
    source = torch.zeros(count, device=device)
    target = torch.empty_like(source)

    def timed(operation):
        def run(calls):
            for _ in range(calls):
                operation()
            wait(left.device)

        return worker.fastest(run, CEILING_SECONDS)

    product = torch.empty_like(left)
    return {
        "machine": torch.cuda.get_device_name() if device == "cuda" else device,
        "flops": 2 * side**3 / timed(lambda: torch.mm(left, right, out=product)),
        "bandwidth": 2 * 4 * count / timed(lambda: target.copy_(source)),
    }


def answer(request):
    if request["device"] == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("PyTorch sees no GPU")
    tf32 = request["precision"] == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    what = {"measure": measure, "ceilings": ceilings}[request["do"]]
    answered = what(request)
    gc.collect()
    held = 0
    if request["device"] == "cuda":
        torch.cuda.empty_cache()
        held = torch.cuda.memory_reserved()
    return {**answered, "held_bytes": held}


if __name__ == "__main__":
    # Both names of the same precision settings are in use; PyTorch warns of the older.
    warnings.filterwarnings("ignore", category=UserWarning)
    worker.answer_lines(torch.__version__, answer)
