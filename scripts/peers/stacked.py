"""R replicas of a network as one PyTorch module: the replicas lie in the channels.

Images are (B, R·C, H, W), and a convolution has R groups; behind them features
are (R, B, F), and a dense layer is a batched product. Batch norm works by
channel, so that it needs nothing but the folded channels.
"""

import torch
import torch.nn.functional as F
from torch import nn

import cohorts
import torch_steps


def sequence(layers, replicas):
    return nn.Sequential(*(module(layer, replicas) for layer in layers))


def module(layer, replicas):
    match layer["kind"]:
        case "dense":
            return Dense(layer, replicas)
        case "conv":
            return Conv(layer, replicas)
        case "norm":
            return Norm(layer["channels"] * replicas)
        case "relu":
            return nn.ReLU()
        case "max-pool":
            return nn.MaxPool2d(2)
        case "global-average-pool":
            return GlobalAveragePool(replicas)
        case "flatten":
            return Flatten(replicas)
        case "residual":
            body, shortcut = (sequence(layer[part], replicas) for part in ("body", "shortcut"))
            return torch_steps.Residual(body, shortcut)


class Dense(nn.Module):
    """y (R, B, I) to y·W + b, with W (R, I, O): the gradient comes in W's own order."""

    def __init__(self, layer, replicas):
        super().__init__()
        self.shape = (layer["units"], layer["inputs"])
        self.fan_in = layer["inputs"]
        self.weight = nn.Parameter(torch.empty(replicas, layer["inputs"], layer["units"]))
        bias = torch.zeros(replicas, 1, layer["units"])
        self.bias = nn.Parameter(bias) if layer["bias"] else None

    def set_weight(self, values):
        """From values (R, O, I)."""
        self.weight.copy_(torch.from_numpy(values).transpose(1, 2))

    def forward(self, y):
        if self.bias is None:
            return torch.bmm(y, self.weight)
        return torch.baddbmm(self.bias, y, self.weight)


class Conv(nn.Module):
    """y (B, R·I, H, W) to (B, R·O, H', W') in R groups, with W (R·O, I, k, k)."""

    def __init__(self, layer, replicas):
        super().__init__()
        side = layer["kernel"]
        self.shape = (layer["channels"], layer["inputs"], side, side)
        self.fan_in = layer["inputs"] * side * side
        self.replicas, self.stride, self.padding = replicas, layer["stride"], layer["padding"]
        outputs = replicas * layer["channels"]
        self.weight = nn.Parameter(torch.empty(outputs, *self.shape[1:]))
        self.bias = nn.Parameter(torch.zeros(outputs)) if layer["bias"] else None

    def set_weight(self, values):
        """From values (R, O, I, k, k)."""
        self.weight.copy_(torch.from_numpy(values).flatten(0, 1))

    def forward(self, y):
        return F.conv2d(
            y, self.weight, self.bias, self.stride, self.padding, groups=self.replicas
        )


class Norm(torch_steps.BatchNorm):
    """Of images (B, R·C, H, W) or features (R, B, C)."""

    def forward(self, y):
        if y.dim() == 4:
            return super().forward(y)
        replicas, size, channels = y.shape
        folded = y.transpose(0, 1).reshape(size, replicas * channels)
        return super().forward(folded).view(size, replicas, channels).transpose(0, 1)


class Flatten(nn.Module):
    """(B, R·C, H, W) to (R, B, C·H·W)."""

    def __init__(self, replicas):
        super().__init__()
        self.replicas = replicas

    def forward(self, y):
        return y.reshape(y.shape[0], self.replicas, -1).transpose(0, 1)


class GlobalAveragePool(Flatten):
    """(B, R·C, H, W) to (R, B, C)."""

    def forward(self, y):
        return super().forward(y.mean(dim=(2, 3)))


def initialize(network, replicas):
    """The weights that all contestants start from; biases are 0, norms 1 and 0."""
    layers = [layer for layer in network.modules() if isinstance(layer, (Dense, Conv))]
    with torch.no_grad():
        for tensor, layer in enumerate(layers):
            layer.set_weight(cohorts.weights(tensor, layer.shape, replicas))
