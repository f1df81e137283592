"""The networks of the goldens, written out in torch.nn.functional.

Parameters come into being where a forward pass first meets them, which is the
order that the engine lists them in.
"""

import math

import torch
import torch.nn.functional as F

import formula


class Layers:
    """Layers that keep their parameters, in one scheme and variant."""

    def __init__(self, scheme, batch_norm, dropout, seed, disturb):
        self.scheme = scheme
        self.disturb = disturb
        self.batch_norm = batch_norm
        self.rate = dropout
        self.seed = seed
        self.parameters = {}
        self.running = {}
        self.training = False
        self.step = 0
        self.dropouts = 0

    def parameter(self, name, role, shape, fan_in=1):
        """A learned tensor, made by the formula when it is first asked for."""
        name = f"{name}.{role}"
        if name not in self.parameters:
            index = len(self.parameters)
            values = self.disturb(formula.initial(index, role, shape, fan_in, self.scheme))
            self.parameters[name] = torch.tensor(values, requires_grad=True)
        assert self.parameters[name].shape == shape
        return self.parameters[name]

    def affine(self, name, shape, bias, product):
        """z = s(Wy + b), s = 1 or 1/sqrt(n); `product` is Wy."""
        fan_in = math.prod(shape[1:])
        z = product(self.parameter(name, "weight", shape, fan_in))
        if bias:
            b = self.parameter(name, "bias", shape[:1], fan_in)
            z = z + b.view(1, -1, *[1] * (z.dim() - 2))
        return z if self.scheme == "standard" else z / math.sqrt(fan_in)

    def conv(self, name, y, channels, kernel, stride=1, padding=0):
        shape = (channels, y.shape[1], kernel, kernel)
        return self.affine(
            name,
            shape,
            not self.batch_norm,
            lambda w: F.conv2d(y, w, stride=stride, padding=padding),
        )

    def dense(self, name, y, units, bias):
        y = y.flatten(1)
        return self.affine(name, (units, y.shape[1]), bias, lambda w: F.linear(y, w))

    def norm_and_relu(self, after, z):
        if self.batch_norm:
            name, shape = f"{after}.norm", (z.shape[1],)
            scale = self.parameter(name, "scale", shape)
            shift = self.parameter(name, "shift", shape)
            mean = self.running.setdefault(f"{name}.mean", torch.zeros(shape, dtype=z.dtype))
            variance = self.running.setdefault(f"{name}.variance", torch.ones(shape, dtype=z.dtype))
            z = F.batch_norm(z, mean, variance, scale, shift, self.training, 0.1, 1e-5)
        return F.relu(z)

    def dropout(self, y):
        if self.training and self.rate > 0:
            mask = formula.dropout_mask(y.shape, self.rate, self.dropouts, self.seed, self.step)
            y = y * torch.tensor(mask)
            self.dropouts += 1
        return y

    def readout(self, y):
        return self.dense("readout", y, formula.CLASSES, bias=True)


def mlp(net, y):
    """Two hidden layers of 24 units."""
    y = F.relu(net.dense("dense1", y, 24, bias=True))
    y = F.relu(net.dense("dense2", y, 24, bias=True))
    return net.readout(y)


def cnn(pool):
    """LeNet-5 at half its size, on 28×28."""

    def forward(net, y):
        y = pool(net.norm_and_relu("conv1", net.conv("conv1", y, 3, 5, padding=2)), 2)
        y = pool(net.norm_and_relu("conv2", net.conv("conv2", y, 8, 5)), 2)
        y = F.relu(net.dense("dense1", y, 60, bias=True))
        y = F.relu(net.dense("dense2", y, 42, bias=True))
        return net.readout(y)

    return forward


def wrn(net, y):
    """Wide ResNet of one block per group, not widened."""
    y = net.conv("stem", y, 16, 3, padding=1)
    y = block(net, "group1.block1", y, 16, stride=1)
    y = block(net, "group2.block1", y, 32, stride=2)
    y = block(net, "group3.block1", y, 64, stride=2)
    y = net.norm_and_relu("final", y)
    return net.readout(y.mean(dim=(2, 3)))


def block(net, name, x, channels, stride):
    """A pre-activation block; where the shape changes, the projection reads the activated input."""
    active = net.norm_and_relu(f"{name}.conv0", x)
    y = net.conv(f"{name}.conv1", active, channels, 3, stride=stride, padding=1)
    y = net.dropout(net.norm_and_relu(f"{name}.conv1", y))
    y = net.conv(f"{name}.conv2", y, channels, 3, padding=1)
    if stride == 1 and x.shape[1] == channels:
        return x + y
    return y + net.conv(f"{name}.project", active, channels, 1, stride=stride)
