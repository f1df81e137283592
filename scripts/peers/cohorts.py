"""The cohorts that gpu.py measures: which networks, and what every contestant starts from.

A cohort is R replicas of one network, each with weights, batches and a learning
rate of its own. Replica r starts from the weights of start.py, each tensor rolled
by r primes, so that all contestants start alike and no two replicas do.

All networks are in the NTK parametrization, z = s(Wy + b) with s² = 1 / fan-in.
A contestant may hold W' = sW and b' = sb instead and step those by s²ε: the
same networks after every step, with no work for s.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

import start

EXAMPLES = 4096
CLASSES = 10
# Tensors of start.py: its batches end long before.
IMAGES, LABELS, CHOICES = 20_000, 20_001, 20_002
ROLL = 7919
# Of one network, to be kept while its replicas are made.
MOST_TENSORS = 32

# Bytes to inputs of mean 0 and variance 1: SCALE * byte + SHIFT.
SCALE = math.sqrt(12) / 256
SHIFT = -127.5 * SCALE

# The batches take turns by four (start.BATCHES): each is seen twice.
CHECK_STEPS = 2 * start.BATCHES
CHECK_RATE = 0.05
# So small that numbers stay ordinary however long it takes.
MEASURE_RATE = 1e-6


@dataclass(frozen=True)
class Cohort:
    """One row of the table."""

    name: str
    family: str
    width: int
    batch: int
    replicas: int
    hidden: int = 0
    batch_norm: bool = False

    def network(self):
        """As networks.layers reads it."""
        return {
            "family": self.family,
            "hidden": self.hidden,
            "width": self.width,
            "batch_norm": self.batch_norm,
            "input": [32, 32, 3] if self.family == "wrn" else [28, 28, 1],
            "classes": CLASSES,
        }


COHORTS = [
    Cohort("1LP_128 B8", "mlp", 128, 8, 100, hidden=1),
    Cohort("1LP_1024 B8", "mlp", 1024, 8, 100, hidden=1),
    Cohort("3LP_512 B16", "mlp", 512, 16, 100, hidden=3),
    Cohort("3LP_512 B128", "mlp", 512, 128, 20, hidden=3),
    Cohort("CNN_2 B24", "cnn", 2, 24, 20),
    Cohort("CNN_4 B96", "cnn", 4, 96, 20),
    Cohort("CNN_12 B24", "cnn", 12, 24, 20),
    Cohort("WRN_2 B8", "wrn", 2, 8, 20),
    Cohort("WRN_4 B64", "wrn", 4, 64, 8),
    Cohort("WRN_8 B64", "wrn", 8, 64, 4),
    Cohort("CNN_4 B96 BN", "cnn", 4, 96, 20, batch_norm=True),
    Cohort("WRN_4 B64 BN", "wrn", 4, 64, 8, batch_norm=True),
]


@functools.lru_cache(maxsize=MOST_TENSORS)
def first_weight(tensor, shape):
    return start.weight(tensor, shape)


def weight(tensor, shape, replica):
    """A replica's weight in PyTorch's layout, (out, in, ...), of variance 1 / fan-in."""
    return np.roll(first_weight(tensor, shape), replica * ROLL)


def weights(tensor, shape, replicas):
    """Those of all replicas, (replica, out, in, ...)."""
    return np.stack([weight(tensor, shape, replica) for replica in range(replicas)])


def images(shape):
    """Bytes (example, height, width, channel)."""
    made = start.hashed(IMAGES, EXAMPLES * math.prod(shape)) >> np.uint32(24)
    return made.astype(np.uint8).reshape(EXAMPLES, *shape)


def labels():
    return (start.hashed(LABELS, EXAMPLES) % np.uint32(CLASSES)).astype(np.int64)


def choices(replicas, batch):
    """The examples of each batch, (batch, replica, example): the same however many replicas."""
    made = start.hashed(CHOICES, start.BATCHES * replicas * batch) % np.uint32(EXAMPLES)
    made = made.reshape(replicas, start.BATCHES, batch).transpose(1, 0, 2)
    return np.ascontiguousarray(made.astype(np.int64))


def rates(rate, replicas):
    """A learning rate for each replica, from `rate` to nearly twice that."""
    return (rate * (1 + np.arange(replicas) / replicas)).astype(np.float32)
