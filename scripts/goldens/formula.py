"""What both sides compute instead of storing: inputs, labels, initial values,
and the dropout masks that the engine draws.

The Rust side of these formulas is crates/engine/tests/goldens/mod.rs; the
masks are those of crates/engine/src/random.rs, written anew from the paper.
"""

import numpy as np

BATCH = 8
EXAMPLES = 24
CLASSES = 10


def noise(salt, count):
    """The first `count` numbers in [-0.5, 0.5) of a salt: a hash of their position."""
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x ^= np.uint64(salt)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(11)) / 2.0**53 - 0.5


def rounded(values):
    """Values that single precision holds, in double precision."""
    return values.astype(np.float32).astype(np.float64)


def initial(index, role, shape, fan_in, scheme):
    """Parameter `index` of a network before the first step.

    Uniform of variance 2/n (standard) or 2 (NTK), the biases too, so that they
    matter; scales about 1 and shifts about 0.
    """
    values = noise(index + 1, int(np.prod(shape)))
    if role == "scale":
        values = 1.0 + 0.5 * values
    elif role == "shift":
        values = 0.5 * values
    else:
        values = np.sqrt(24.0 / fan_in if scheme == "standard" else 24.0) * values
    return rounded(values).reshape(shape)


def labels():
    """Class of every example."""
    return 7 * np.arange(EXAMPLES) % CLASSES


def inputs(channels, height, width):
    """Every example, (channel, row, column): its class's pattern and some of its own."""
    size = channels * height * width
    pattern = noise(198, CLASSES * size).reshape(CLASSES, size)[labels()]
    own = noise(199, EXAMPLES * size).reshape(EXAMPLES, size)
    return rounded(2.0 * pattern + 2.5 * own).reshape(EXAMPLES, channels, height, width)


def batch(step):
    """Examples of a step's batch: all in turn, over and over."""
    return (np.arange(BATCH) + BATCH * step) % EXAMPLES


def philox(counter, key):
    """Philox4x32-10 of Salmon, Moraes, Dror, Shaw (SC 2011), over arrays of counters."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    c = [np.asarray(word, dtype=np.uint64) for word in counter]
    k = [np.uint64(word) for word in key]
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (second >> half) ^ c[1] ^ k[0],
            second & mask,
            (first >> half) ^ c[3] ^ k[1],
            first & mask,
        ]
        k = [(k[0] + np.uint64(0x9E3779B9)) & mask, (k[1] + np.uint64(0xBB67AE85)) & mask]
    return c


def check_philox():
    """Known answers from the Random123 distribution."""
    ones = 0xFFFFFFFF
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    for counter, key, answer in [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([ones] * 4, [ones] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (pi, [0xA4093822, 0x299F31D0], [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
    ]:
        assert [int(word) for word in philox(counter, key)] == answer, "not Philox4x32-10"


def dropout_mask(shape, rate, layer, seed, step):
    """Factors on activations (B, C, H, W) of the network's dropout `layer`.

    Value i, counted with channels last, takes word i mod 4 of the block at
    counter (i / 4, step, 3 + layer) under the seed, and is dropped if that is
    below the rate.
    """
    b, c, h, w = shape
    lanes = np.arange(-(-b * c * h * w // 4), dtype=np.uint64)
    low = 0xFFFFFFFF
    counter = [lanes, step & low, step >> 32, 3 + layer]
    words = np.stack(np.broadcast_arrays(*philox(counter, [seed & low, seed >> 32])), axis=1)
    kept = words.reshape(-1)[: b * c * h * w] >= np.uint64(int(rate * 2**32))
    return (kept / (1.0 - rate)).reshape(b, h, w, c).transpose(0, 3, 1, 2)
