#!/usr/bin/env python3
"""Packs the UCI handwritten digits into the file that the program embeds.

usage: make_digits.py [FILE]     (default: crates/engine/assets/digits.bin)

The data are the "Optical Recognition of Handwritten Digits" of E. Alpaydin and
C. Kaynak (UCI Machine Learning Repository, 1998, doi:10.24432/C50P49), licensed
under CC BY 4.0, in the 1,797 images and the order that scikit-learn ships. The
file is the gzip of all pixels, (1797, 8, 8) bytes from 0 to 16, followed by all
labels, (1797) bytes from 0 to 9.

Needs scikit-learn and NumPy.
"""

import gzip
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

DEFAULT = Path(__file__).resolve().parent.parent / "crates/engine/assets/digits.bin"


def main():
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT
    digits = load_digits()
    pixels = digits.images.astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    assert pixels.shape == (1797, 8, 8) and pixels.max() == 16, "not the digits we know"
    assert np.array_equal(pixels, digits.images), "a pixel is not a whole number"
    # No time of making in the header: the same content makes the same file.
    target.write_bytes(gzip.compress(pixels.tobytes() + labels.tobytes(), 9, mtime=0))
    print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
