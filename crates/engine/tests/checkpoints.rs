//! What becomes of files of checkpoints that are not as they were written.

use engine::checkpoint::{Checkpoint, CheckpointError};
use engine::data::{self, Store};
use engine::kernels::Isa;
use engine::train::{Compiled, Training};
use spec::Study;
use std::path::Path;

const STUDY: &str = r#"
[task]
dataset = "digits"
[family]
kind = "wrn"
blocks = 1
batch_norm = true
widths = [1]
scheme = "ntk"
[search]
kind = "batch-size"
learning_rate = 1.0
batch_sizes = [16]
[time]
epochs = 1
"#;

/// The file of a run after five steps.
fn file() -> Vec<u8> {
    let study = Study::parse("test", Path::new("test"), STUDY, &[]).unwrap();
    let run = &spec::plan(&study)[0];
    let data = data::load(&run.setting.task, &Store::at("unused")).unwrap();
    let compiled = Compiled::new(run).unwrap();
    let mut training = Training::new(run, &data, &compiled, Isa::detect()).unwrap();
    training.advance(5);
    training.checkpoint().to_bytes().unwrap()
}

#[test]
fn a_damaged_checkpoint_is_refused() {
    let bytes = file();
    assert!(Checkpoint::from_bytes(&bytes).is_ok());
    for cut in [0, 7, 100, bytes.len() - 1] {
        assert!(
            Checkpoint::from_bytes(&bytes[..cut]).is_err(),
            "cut at {cut}"
        );
    }
}

/// One bit anywhere behind the length of the header.
#[test]
fn an_altered_checkpoint_is_refused() {
    let bytes = file();
    let values = (1000..bytes.len()).step_by(bytes.len() / 100);
    for at in (8..1000).step_by(3).chain(values) {
        let mut altered = bytes.clone();
        altered[at] ^= 1;
        assert!(Checkpoint::from_bytes(&altered).is_err(), "altered at {at}");
    }
}

/// As those of earlier releases are.
#[test]
fn a_checkpoint_without_a_checksum_is_foreign() {
    let mut bytes = file();
    let at = bytes.windows(8).position(|eight| eight == b"\"sha256\"");
    bytes[at.unwrap() + 1] = b'x';
    assert!(matches!(
        Checkpoint::from_bytes(&bytes),
        Err(CheckpointError::Foreign)
    ));
}
