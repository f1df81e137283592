"""Dense layers and convolutions in the two schemes.

With n the fan-in and weights W of variance s (the weight scale, 2 by default):
standard: z = W y + b, W ~ N(0, s/n); NTK: z = (W y + b)/sqrt(n), W ~ N(0, s); b = 0 at first.
"""

from math import sqrt

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, shape, scheme, weight_scale, apply):
        super().__init__()
        fan_in = torch.Size(shape[1:]).numel()
        deviation = sqrt(weight_scale) if scheme == "ntk" else sqrt(weight_scale / fan_in)
        self.multiplier = 1 / sqrt(fan_in) if scheme == "ntk" else 1.0
        self.weight = nn.Parameter(deviation * torch.randn(shape))
        self.bias = nn.Parameter(torch.zeros(shape[0]))
        self.apply_to = apply

    def forward(self, inputs):
        return self.apply_to(inputs, self.multiplier * self.weight, self.multiplier * self.bias)


def dense(inputs, outputs, scheme, weight_scale):
    return Layer((outputs, inputs), scheme, weight_scale, nn.functional.linear)


def conv3x3(inputs, outputs, scheme, weight_scale):
    def apply(images, weight, bias):
        return nn.functional.conv2d(images, weight, bias, padding=1)

    return Layer((outputs, inputs, 3, 3), scheme, weight_scale, apply)
