#!/usr/bin/env python3
"""JAX's cohorts, asked for by gpu.py: jit(scan(vmap(step))) over the replicas.

The networks are those of jax_steps.py. A call is one compiled program of several
steps, each of which draws its batches from the bytes on the device.
"""

import gc

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import cohorts
import jax_steps
import limits
import start
import worker

PRECISIONS = {"tf32": "tensorfloat32", "fp32": "highest"}
# Operations in one call, so that calling takes no time and a call not too long.
CALL_FLOPS = 5e11
FEWEST_STEPS, MOST_STEPS = 4, 128


class Initial(jax_steps.Initial):
    """Makes the parameters of one replica."""

    def __init__(self, replica):
        super().__init__()
        self.replica = replica

    def weight(self, shape):
        value = cohorts.weight(self.tensor, shape, self.replica)
        self.tensor += 1
        return value.transpose(*range(2, len(shape)), 1, 0)


def factors(layers):
    """What the NTK parametrization makes of the learning rate, parameter by parameter."""
    return [factor(layer) for layer in layers]


def factor(layer):
    match layer["kind"]:
        case "dense" | "conv":
            fan_in = layer["inputs"] * layer.get("kernel", 1) ** 2
            return {name: 1 / fan_in for name in ("w", "b")[: 1 + layer["bias"]]}
        case "norm":
            return {"scale": 1.0, "shift": 1.0}
        case "residual":
            return {part: factors(layer[part]) for part in ("body", "shortcut")}
    return {}


class Trainer:
    """R replicas; every array of the state but the step's number leads with R."""

    def __init__(self, request):
        self.layers, replicas = request["layers"], request["replicas"]
        each = [Initial(replica).layers(self.layers) for replica in range(replicas)]
        self.parameters = sum(p.size for p in jax.tree.leaves(each[0][0]))
        parameters, running = jax.tree.map(lambda *all: jnp.asarray(np.stack(all)), *each)
        velocity = jax.tree.map(jnp.zeros_like, parameters)
        self.state = (parameters, velocity, running, jnp.int32(0))
        self.data = (
            jnp.asarray(cohorts.images(request["input"])),
            jnp.asarray(cohorts.labels().astype(np.int32)),
            jnp.asarray(cohorts.choices(replicas, request["batch"]).astype(np.int32)),
        )
        flops = replicas * limits.step_flops(self.layers, request["input"], request["batch"])
        most = MOST_STEPS if request["device"] == "cuda" else FEWEST_STEPS
        self.count = max(FEWEST_STEPS, min(most, int(CALL_FLOPS / flops)))
        self.call = jax.jit(self.steps, donate_argnums=0)

    def steps(self, state, rates, data):
        images, labels, choices = data
        gradient = jax.value_and_grad(jax_steps.loss, argnums=1, has_aux=True)
        own = factors(self.layers)

        def step(parameters, velocity, running, chosen, rate):
            drawn = jnp.take(images, chosen, axis=0, mode="clip").astype(jnp.float32)
            (value, running), slope = gradient(
                self.layers,
                parameters,
                running,
                drawn * cohorts.SCALE + cohorts.SHIFT,
                jnp.take(labels, chosen, mode="clip"),
            )
            momentum = jax_steps.MOMENTUM
            velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, slope)
            parameters = jax.tree.map(
                lambda p, v, g, f: p - (rate * f) * (g + momentum * v),
                parameters,
                velocity,
                slope,
                own,
            )
            return parameters, velocity, running, value

        def together(state, _):
            *learned, at = state
            *learned, values = jax.vmap(step)(*learned, choices[at % start.BATCHES], rates)
            return (*learned, at + 1), values

        return lax.scan(together, state, length=self.count)

    def run(self, calls, rates):
        """The losses of the last call, (step, replica)."""
        for _ in range(calls):
            self.state, losses = self.call(self.state, rates, self.data)
        return losses.block_until_ready()


def measure(request):
    """The losses of the first steps, and the time of a step of one replica."""
    trainer = Trainer(request)
    replicas = request["replicas"]
    rates = jnp.asarray(cohorts.rates(cohorts.CHECK_RATE, replicas))
    losses = np.asarray(trainer.run(1, rates))
    while len(losses) < cohorts.CHECK_STEPS:
        losses = np.concatenate([losses, np.asarray(trainer.run(1, rates))])
    rates = jnp.asarray(cohorts.rates(cohorts.MEASURE_RATE, replicas))
    seconds = worker.fastest(lambda calls: trainer.run(calls, rates), request["seconds"])
    return {
        "parameters": trainer.parameters,
        "losses": losses[: cohorts.CHECK_STEPS].tolist(),
        "seconds": seconds / (trainer.count * replicas),
        "how": f"{trainer.count} steps a call",
    }


def answer(request):
    wanted = {"cuda": "gpu"}.get(request["device"], request["device"])
    if jax.default_backend() != wanted:
        raise RuntimeError(f"JAX runs on {jax.default_backend()}, not {request['device']}")
    with jax.default_matmul_precision(PRECISIONS[request["precision"]]):
        measured = measure(request)
    gc.collect()
    jax.clear_caches()
    held = jax.devices()[0].memory_stats() or {}
    return {**measured, "held_bytes": held.get("pool_bytes", 0)}


if __name__ == "__main__":
    worker.answer_lines(jax.__version__, answer)
