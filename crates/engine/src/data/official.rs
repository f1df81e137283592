//! The official files of the data sets that are not in the program: their names,
//! sizes and checksums, and where the public offers them.
//!
//! Checksums are MD5 of the decompressed content: it is what the data sets'
//! authors and other tools publish, and it guards against damage, not malice.

use spec::DatasetName;

/// One official file, as it is when nothing is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfficialFile {
    /// Its name, without a folder.
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
    /// MD5 of its content, in hexadecimal digits.
    pub md5: &'static str,
}

impl OfficialFile {
    /// Whether a file of this name, without its folder, would be this file: also
    /// with `.gz`, and in the spelling `train-images.idx3-ubyte`.
    pub fn bears_name(&self, name: &str) -> bool {
        let plain = name.strip_suffix(".gz").unwrap_or(name);
        plain == self.name || plain == self.name.replacen("-idx", ".idx", 1)
    }
}

/// One file that the public offers, which holds official files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Download {
    /// Its name, without a folder.
    pub file: &'static str,
    /// Its usual size; a mirror may have compressed it anew.
    pub bytes: u64,
    /// Folders that offer it, in the order in which they are tried.
    pub mirrors: &'static [&'static str],
    /// The official files in it.
    pub holds: &'static [OfficialFile],
}

impl Download {
    /// Whether a file of this name is this archive of several files.
    pub(super) fn is_archive(&self, name: &str) -> bool {
        self.holds.len() > 1 && self.file == name
    }
}

/// Everything there is to download for a data set; nothing for the digits.
pub fn downloads(dataset: DatasetName) -> &'static [Download] {
    match dataset {
        DatasetName::Digits => &[],
        DatasetName::Mnist => &MNIST,
        DatasetName::FashionMnist => &FASHION_MNIST,
        DatasetName::Cifar10 => &CIFAR10,
    }
}

/// The official files of a data set; none for the digits.
pub fn files(dataset: DatasetName) -> Vec<OfficialFile> {
    let all = downloads(dataset).iter();
    all.flat_map(|download| download.holds).copied().collect()
}

const MNIST_MIRRORS: &[&str] = &[
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
];

const MNIST: [Download; 4] = [
    Download {
        file: "train-images-idx3-ubyte.gz",
        bytes: 9_912_422,
        mirrors: MNIST_MIRRORS,
        holds: &[OfficialFile {
            name: "train-images-idx3-ubyte",
            bytes: 47_040_016,
            md5: "6bbc9ace898e44ae57da46a324031adb",
        }],
    },
    Download {
        file: "train-labels-idx1-ubyte.gz",
        bytes: 28_881,
        mirrors: MNIST_MIRRORS,
        holds: &[OfficialFile {
            name: "train-labels-idx1-ubyte",
            bytes: 60_008,
            md5: "a25bea736e30d166cdddb491f175f624",
        }],
    },
    Download {
        file: "t10k-images-idx3-ubyte.gz",
        bytes: 1_648_877,
        mirrors: MNIST_MIRRORS,
        holds: &[OfficialFile {
            name: "t10k-images-idx3-ubyte",
            bytes: 7_840_016,
            md5: "2646ac647ad5339dbf082846283269ea",
        }],
    },
    Download {
        file: "t10k-labels-idx1-ubyte.gz",
        bytes: 4_542,
        mirrors: MNIST_MIRRORS,
        holds: &[OfficialFile {
            name: "t10k-labels-idx1-ubyte",
            bytes: 10_008,
            md5: "27ae3e4e09519cfbb04c329615203637",
        }],
    },
];

// The authors' own site, the last, has no HTTPS; the checksums hold for it as for the others.
const FASHION_MNIST_MIRRORS: &[&str] = &[
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
];

const FASHION_MNIST: [Download; 4] = [
    Download {
        file: "train-images-idx3-ubyte.gz",
        bytes: 26_421_880,
        mirrors: FASHION_MNIST_MIRRORS,
        holds: &[OfficialFile {
            name: "train-images-idx3-ubyte",
            bytes: 47_040_016,
            md5: "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        }],
    },
    Download {
        file: "train-labels-idx1-ubyte.gz",
        bytes: 29_515,
        mirrors: FASHION_MNIST_MIRRORS,
        holds: &[OfficialFile {
            name: "train-labels-idx1-ubyte",
            bytes: 60_008,
            md5: "9018921c3c673c538a1fc5bad174d6f9",
        }],
    },
    Download {
        file: "t10k-images-idx3-ubyte.gz",
        bytes: 4_422_102,
        mirrors: FASHION_MNIST_MIRRORS,
        holds: &[OfficialFile {
            name: "t10k-images-idx3-ubyte",
            bytes: 7_840_016,
            md5: "8181f5470baa50b63fa0f6fddb340f0a",
        }],
    },
    Download {
        file: "t10k-labels-idx1-ubyte.gz",
        bytes: 5_148,
        mirrors: FASHION_MNIST_MIRRORS,
        holds: &[OfficialFile {
            name: "t10k-labels-idx1-ubyte",
            bytes: 10_008,
            md5: "15d484375f8d13e6eb1aabb0c3f46965",
        }],
    },
];

const CIFAR10: [Download; 1] = [Download {
    file: "cifar-10-binary.tar.gz",
    bytes: 170_052_171,
    mirrors: &[
        "https://www.cs.toronto.edu/~kriz",
        "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10",
    ],
    holds: &[
        cifar("data_batch_1.bin", "5dd7e06a14cb22eb9f671a540d1b7c25"),
        cifar("data_batch_2.bin", "5ea93a67294ea407fff1d09f752e9692"),
        cifar("data_batch_3.bin", "942cd6a4bcdd0dd3c604fbe906cb4421"),
        cifar("data_batch_4.bin", "ae636b3ba5c66a11e91e8cb52e771fcb"),
        cifar("data_batch_5.bin", "53f37980c15c3d472c316c40844f3f0d"),
        cifar("test_batch.bin", "803d5f7f4d78ea53de84dbe85f74fb6d"),
    ],
}];

/// A file of CIFAR-10: 10,000 records of a label and 32 · 32 · 3 pixels.
const fn cifar(name: &'static str, md5: &'static str) -> OfficialFile {
    OfficialFile {
        name,
        bytes: 10_000 * 3_073,
        md5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_spellings_are_recognised() {
        let file = files(DatasetName::Mnist)[0];
        for name in [
            "train-images-idx3-ubyte",
            "train-images-idx3-ubyte.gz",
            "train-images.idx3-ubyte",
            "train-images.idx3-ubyte.gz",
        ] {
            assert!(file.bears_name(name), "{name}");
        }
        for name in [
            "train-images",
            "t10k-images-idx3-ubyte",
            "train-images-idx3-ubyte.zip",
        ] {
            assert!(!file.bears_name(name), "{name}");
        }
    }
}
