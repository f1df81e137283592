"""Initial weights, inputs and labels that every contestant computes alike.

Value i of tensor t is a hash of the two, so that losses can be compared across
frameworks and languages; rust/src/start.rs holds the same formula.
"""

import math

import numpy as np

BATCHES = 4
FIRST_BATCH = 10_000


def hashed(tensor, count):
    """32 random bits for each of `count` values of a tensor."""
    with np.errstate(over="ignore"):
        x = np.arange(1, count + 1, dtype=np.uint32) * np.uint32(0x9E3779B1)
        x += np.uint32(tensor * 0x85EBCA77 & 0xFFFFFFFF)
        x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
        x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
        return x ^ (x >> np.uint32(16))


def uniform(tensor, shape, bound):
    """Values from -bound to bound."""
    unit = (hashed(tensor, math.prod(shape)) >> np.uint32(8)).astype(np.float32) / np.float32(2**23)
    return ((unit - np.float32(1)) * np.float32(bound)).reshape(shape)


def weight(tensor, shape):
    """A weight in PyTorch's layout, (out, in, ...), of variance 1 / fan-in."""
    return uniform(tensor, shape, math.sqrt(3 / math.prod(shape[1:])))


def batch(index, size, shape, classes):
    """Inputs (size, height, width, channels) of unit variance, and labels (size)."""
    tensor = FIRST_BATCH + 2 * index
    inputs = uniform(tensor, (size, *shape), math.sqrt(3))
    return inputs, (hashed(tensor + 1, size) % np.uint32(classes)).astype(np.int64)
