//! A step allocates nothing: everything it needs was made before the first one.

use engine::data::{Dataset, Examples, Normalization, Values};
use engine::kernels::Isa;
use engine::train::{Compiled, Training};
use spec::Study;
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counting.
struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn study(family: &str) -> Study {
    let text = format!(
        "title = \"t\"\nseeds = 1\n[task]\ndataset = \"cifar10\"\n[family]\n{family}\nwidths = [1]\n\
         scheme = \"ntk\"\n[search]\nkind = \"batch-size\"\nlearning_rate = 0.01\n\
         batch_sizes = [4]\n[regularizers]\ncrop_padding = 2\nflip = true\n\
         dropout = 0.1\n[time]\nepochs = 1\n"
    );
    Study::parse("t", Path::new("t.toml"), &text, &[]).unwrap()
}

/// A few examples of the shape that the study asks for.
fn data(study: &Study) -> Dataset {
    let content = study.setting.content();
    let examples = |count: usize| Examples {
        values: Values::Bytes(vec![100; count * content.shape.size()]),
        labels: vec![1; count],
    };
    Dataset {
        shape: content.shape,
        classes: content.classes,
        normalization: Normalization {
            offset: vec![0.0; content.shape.channels],
            factor: vec![0.01; content.shape.channels],
        },
        train: examples(16),
        validation: examples(1),
        test: examples(1),
    }
}

/// One test, because the count is of the whole process.
#[test]
fn a_step_allocates_nothing() {
    for family in [
        "kind = \"mlp\"\nhidden = [4, 2]",
        "kind = \"cnn\"\nbatch_norm = true",
        "kind = \"wrn\"\nblocks = 1\nbatch_norm = true",
        "kind = \"wrn\"\nblocks = 1",
    ] {
        let study = study(family);
        let run = spec::plan(&study).remove(0);
        let (data, compiled) = (data(&study), Compiled::new(&run).unwrap());
        for isa in Isa::available() {
            let mut training = Training::new(&run, &data, &compiled, isa).unwrap();
            training.step();
            let before = CALLS.load(Ordering::Relaxed);
            // More than an epoch, so that an order is drawn as well.
            for _ in 0..6 {
                training.step();
            }
            let calls = CALLS.load(Ordering::Relaxed) - before;
            assert_eq!(calls, 0, "{family} with {isa}");
        }
    }
}
