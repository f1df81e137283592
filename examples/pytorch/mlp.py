"""A network with one hidden layer of `width` units."""

from torch import nn

from digits import main
from layers import dense


def model_of(width, scheme, weight_scale):
    return nn.Sequential(
        nn.Flatten(),
        dense(64, width, scheme, weight_scale),
        nn.ReLU(),
        dense(width, 10, scheme, weight_scale),
    )


main(model_of)
