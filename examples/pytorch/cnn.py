"""Two convolutions of 4 and 8 widths, each pooled, and a dense read-out."""

from torch import nn

from digits import main
from layers import conv3x3, dense


def model_of(width, scheme, weight_scale):
    how = (scheme, weight_scale)
    return nn.Sequential(
        conv3x3(1, 4 * width, *how), nn.ReLU(), nn.MaxPool2d(2),
        conv3x3(4 * width, 8 * width, *how), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), dense(8 * width * 4, 10, *how),
    )


main(model_of)
