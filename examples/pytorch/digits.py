"""Training on the handwritten digits, as a noisescale command: arguments in, JSON lines out.

A model is trained by `main(model_of)`, where `model_of(width, scheme, weight_scale)` makes one.
Asked to end by SIGTERM, the training saves its state in its run folder; called again, it goes
on from there.
"""

import argparse
import gzip
import json
import os
import signal
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

# 1,797 images of 8x8 bytes from 0 to 16, then their labels (UCI, CC BY 4.0).
DIGITS = Path(__file__).resolve().parents[2] / "crates/engine/assets/digits.bin"
TRAIN, VALIDATION, TEST = 1197, 100, 500


def load():
    packed = torch.frombuffer(bytearray(gzip.open(DIGITS).read()), dtype=torch.uint8)
    count = TRAIN + VALIDATION + TEST
    images = packed[: count * 64].reshape(count, 1, 8, 8) / 16 - 0.5
    labels = packed[count * 64 :].long()
    sizes = (TRAIN, VALIDATION, TEST)
    return list(zip(images.split(sizes), labels.split(sizes)))


def say(**message):
    print(json.dumps(message), flush=True)


def accuracy(model, part):
    with torch.no_grad():
        return (model(part[0]).argmax(1) == part[1]).double().mean().item()


class Training:
    """All that a run needs to go on: weights, velocities, random numbers, step."""

    def __init__(self, model, args):
        self.model, self.args, self.step = model, args, 0
        self.weights = list(model.parameters())
        self.velocities = [torch.zeros_like(weight) for weight in self.weights]
        self.random = torch.Generator().manual_seed(args.seed)
        self.order = torch.empty(0, dtype=torch.long)
        self.saved = Path(args.run_folder) / "state.pt" if args.run_folder else None

    def save(self):
        if self.saved:
            state = [self.model.state_dict(), self.velocities, self.random.get_state()]
            partial = self.saved.with_suffix(".partial")
            torch.save([self.step, self.order, *state], partial)
            os.replace(partial, self.saved)

    def resume(self):
        if self.saved and self.saved.exists():
            self.step, self.order, model, self.velocities, random = torch.load(self.saved)
            self.model.load_state_dict(model)
            self.random.set_state(random)

    def take_step(self, images, labels):
        """One step; an epoch is a fresh order, and a rest smaller than a batch is dropped."""
        if len(self.order) < self.args.batch_size:
            self.order = torch.randperm(len(labels), generator=self.random)
        batch = self.order[: self.args.batch_size]
        self.order = self.order[self.args.batch_size :]
        loss = cross_entropy(self.model(images[batch]), labels[batch])
        gradients = torch.autograd.grad(loss, self.weights)
        self.descend(gradients)
        self.step += 1
        return loss.item()

    @torch.no_grad()
    def descend(self, gradients):
        """Nesterov's step. As torch.optim.SGD takes it, which is slower to import than this is
        to run."""
        rate, momentum = self.args.lr, self.args.momentum
        for weight, velocity, gradient in zip(self.weights, self.velocities, gradients):
            velocity.mul_(momentum).add_(gradient)
            weight.sub_(gradient.add(velocity, alpha=momentum), alpha=rate)


def main(model_of):
    parser = argparse.ArgumentParser()
    for name, kind in [("width", int), ("batch-size", int), ("lr", float), ("seed", int), ("steps", int)]:
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--scheme", choices=["ntk", "standard"], default="ntk")
    parser.add_argument("--weight-scale", type=float, default=2.0)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--evaluations", type=int, default=20)
    parser.add_argument("--run-folder")
    args = parser.parse_args()

    asked_to_end = []
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.append(True))
    torch.manual_seed(args.seed)
    train, validation, test = load()
    training = Training(model_of(args.width, args.scheme, args.weight_scale), args)
    training.resume()
    looks = {-(-i * args.steps // args.evaluations) for i in range(1, args.evaluations + 1)}
    loss = 0.0
    while training.step < args.steps:
        if asked_to_end:
            return training.save()
        loss = training.take_step(*train)
        if loss != loss or loss == float("inf"):
            return say(outcome="diverged", step=training.step)
        if training.step in looks:
            say(
                step=training.step,
                training_loss=loss,
                test_accuracy=accuracy(training.model, test),
                validation_accuracy=accuracy(training.model, validation),
            )
    say(outcome="trained", test_accuracy=accuracy(training.model, test))
