"""How fast a training step could be: what it must compute and move, over what the
machine can.

    limit = max(FLOPs / peak rate of a matrix product, bytes / bandwidth of a copy)

FLOPs are two per multiply-add of the forward pass, the weights' gradients, and
the data's gradients but the first layer's. Bytes are five passes over the weights
(W is read forward and backward, v is read, both are written) and four over the
outputs of dense and convolutional layers (written and read, forward and
backward), in 32-bit floats, as if all between those layers cost nothing.
"""

import networks

WEIGHT_PASSES = 5
ACTIVATION_PASSES = 4
FLOAT = 4


class Count:
    """Multiply-adds and outputs of the forward pass of one example."""

    def __init__(self, layers, shape):
        self.products = 0
        self.outputs = 0
        # Multiply-adds of the first layer that has weights.
        self.first = None
        self.through(layers, shape)

    def through(self, layers, shape):
        """The shape behind the layers."""
        for layer in layers:
            shape = self.one(layer, shape)
        return shape

    def one(self, layer, shape):
        height, width, channels = shape
        match layer["kind"]:
            case "dense":
                self.add(layer["inputs"], layer["units"])
                return 1, 1, layer["units"]
            case "conv":
                height, width = (side(layer, length) for length in (height, width))
                outputs = height * width * layer["channels"]
                self.add(layer["inputs"] * layer["kernel"] ** 2, outputs)
                return height, width, layer["channels"]
            case "max-pool":
                return height // 2, width // 2, channels
            case "residual":
                self.through(layer["shortcut"], shape)
                return self.through(layer["body"], shape)
        return shape

    def add(self, fan_in, outputs):
        self.products += fan_in * outputs
        self.outputs += outputs
        if self.first is None:
            self.first = fan_in * outputs


def side(conv, length):
    return (length + 2 * conv["padding"] - conv["kernel"]) // conv["stride"] + 1


def step_flops(layers, shape, batch):
    """Floating-point operations of one step of one replica."""
    count = Count(layers, shape)
    return 2 * batch * (3 * count.products - count.first)


def step_bytes(layers, shape, batch):
    """Bytes that one step of one replica must move."""
    outputs = batch * Count(layers, shape).outputs
    weights = networks.parameter_count(layers)
    return FLOAT * (WEIGHT_PASSES * weights + ACTIVATION_PASSES * outputs)


def limit(layers, shape, batch, ceilings):
    """Seconds of one step of one replica, and which of the two it is."""
    by = {
        "matmul": step_flops(layers, shape, batch) / ceilings["flops"],
        "memory": step_bytes(layers, shape, batch) / ceilings["bandwidth"],
    }
    which = max(by, key=by.get)
    return by[which], which
