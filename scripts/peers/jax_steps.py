#!/usr/bin/env python3
"""JAX's training steps, asked for by peers.py.

A call is one compiled program. Perceptrons take many steps in it by lax.scan,
each with forward pass, loss, backward pass and Nesterov update. Convolutional
networks take one: inside a loop XLA's CPU convolutions are many times slower.
Convolutions are NHWC.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import start
import worker

MOMENTUM = 0.9
NORM_MOMENTUM = 0.1
EPSILON = 1e-5
# Operations in one call of a perceptron: a tenth of a second at 10 GFLOP/s.
CALL_FLOPS = 1e9
MOST_STEPS = 256


class Initial:
    """Makes the parameters in the order of the layers."""

    def __init__(self):
        self.tensor = 0

    def weight(self, shape):
        value = start.weight(self.tensor, shape)
        self.tensor += 1
        # (O, I, ...) becomes (..., I, O).
        return value.transpose(*range(2, len(shape)), 1, 0)

    def dense(self, units, image):
        """A dense layer's weight, with rows in the order of channels, height, width elsewhere."""
        height, width, channels = image
        value = self.weight((units, channels * height * width))
        value = value.reshape(channels, height, width, units)
        return value.transpose(1, 2, 0, 3).reshape(-1, units)

    def layers(self, layers):
        """Parameters and running statistics of each layer, as two lists."""
        made = [self.layer(layer) for layer in layers]
        return [p for p, _ in made], [s for _, s in made]

    def layer(self, layer):
        match layer["kind"]:
            case "dense":
                made = {"w": self.dense(layer["units"], layer["image"])}
                if layer["bias"]:
                    made["b"] = np.zeros(layer["units"], np.float32)
                return made, {}
            case "conv":
                side = layer["kernel"]
                made = {"w": self.weight((layer["channels"], layer["inputs"], side, side))}
                if layer["bias"]:
                    made["b"] = np.zeros(layer["channels"], np.float32)
                return made, {}
            case "norm":
                zero = np.zeros(layer["channels"], np.float32)
                return {"scale": zero + 1, "shift": zero}, {"mean": zero, "variance": zero + 1}
            case "residual":
                body, shortcut = self.layers(layer["body"]), self.layers(layer["shortcut"])
                return (
                    {"body": body[0], "shortcut": shortcut[0]},
                    {"body": body[1], "shortcut": shortcut[1]},
                )
        return {}, {}


def forward(layers, parameters, running, y):
    """The output and the new running statistics."""
    after = []
    for layer, own, state in zip(layers, parameters, running):
        y, state = apply(layer, own, state, y)
        after.append(state)
    return y, after


def apply(layer, own, state, y):
    match layer["kind"]:
        case "dense":
            y = y @ own["w"]
            return (y + own["b"] if layer["bias"] else y), state
        case "conv":
            y = lax.conv_general_dilated(
                y,
                own["w"],
                window_strides=(layer["stride"],) * 2,
                padding=[(layer["padding"],) * 2] * 2,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )
            return (y + own["b"] if layer["bias"] else y), state
        case "norm":
            return norm(own, state, y)
        case "relu":
            return jax.nn.relu(y), state
        case "max-pool":
            return max_pool(y), state
        case "global-average-pool":
            return y.mean(axis=(1, 2)), state
        case "flatten":
            return y.reshape(y.shape[0], -1), state
        case "residual":
            body, body_state = forward(layer["body"], own["body"], state["body"], y)
            around, around_state = forward(layer["shortcut"], own["shortcut"], state["shortcut"], y)
            return body + around, {"body": body_state, "shortcut": around_state}


def max_pool(y):
    """By reshaping: the gradient of lax.reduce_window is several times slower on a CPU."""
    size, height, width, channels = y.shape
    return y.reshape(size, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))


def norm(own, state, y):
    axes = tuple(range(y.ndim - 1))
    count = math.prod(y.shape[:-1])
    mean, variance = y.mean(axes), y.var(axes)
    moved = {
        "mean": state["mean"] + NORM_MOMENTUM * (mean - state["mean"]),
        "variance": state["variance"]
        + NORM_MOMENTUM * (variance * (count / (count - 1)) - state["variance"]),
    }
    y = (y - mean) * (own["scale"] * lax.rsqrt(variance + EPSILON)) + own["shift"]
    return y, lax.stop_gradient(moved)


def loss(layers, parameters, running, inputs, labels):
    logits, running = forward(layers, parameters, running, inputs)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return -chosen.mean(), running


class Trainer:
    def __init__(self, request):
        self.layers = request["layers"]
        parameters, running = jax.tree.map(jnp.asarray, Initial().layers(self.layers))
        self.parameters = sum(p.size for p in jax.tree.leaves(parameters))
        batches = [
            start.batch(i, request["batch"], request["input"], request["classes"])
            for i in range(start.BATCHES)
        ]
        self.inputs = jnp.stack([inputs for inputs, _ in batches])
        self.labels = jnp.stack([labels.astype(np.int32) for _, labels in batches])
        velocity = jax.tree.map(jnp.zeros_like, parameters)
        self.state = (parameters, velocity, running, jnp.int32(0))
        self.run = jax.jit(self.steps, static_argnums=4, donate_argnums=0)
        self.count = self.steps_of_a_call(request)

    def steps_of_a_call(self, request):
        """One for a convolutional network, else by XLA's count of a step's operations."""
        if any(layer["kind"] == "conv" for layer in request["layers"]):
            return 1
        one = self.run.lower(self.state, self.inputs, self.labels, jnp.float32(0), 1)
        flops = one.cost_analysis()["flops"]
        return max(1, min(MOST_STEPS, int(CALL_FLOPS / flops)))

    def steps(self, state, inputs, labels, learning_rate, count):
        gradient = jax.value_and_grad(loss, argnums=1, has_aux=True)

        def step(state, _):
            parameters, velocity, running, at = state
            chosen = at % start.BATCHES
            (value, running), slope = gradient(
                self.layers, parameters, running, inputs[chosen], labels[chosen]
            )
            velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, slope)
            parameters = jax.tree.map(
                lambda p, v, g: p - learning_rate * (g + MOMENTUM * v), parameters, velocity, slope
            )
            return (parameters, velocity, running, at + 1), value

        if count == 1:
            state, value = step(state, None)
            return state, value[None]
        return lax.scan(step, state, length=count)

    def advance(self, learning_rate):
        self.state, losses = self.run(
            self.state, self.inputs, self.labels, jnp.float32(learning_rate), self.count
        )
        losses.block_until_ready()
        return losses


if __name__ == "__main__":
    worker.serve(jax.__version__, Trainer)
