//! Files cut or changed at random: no panic, and every intact line is read.

mod support;

use ledger::{Ledger, LedgerError};
use proptest::prelude::*;
use spec::Record;
use std::fs;
use support::{leave_file, line, record};

const RECORDS: u64 = 6;

fn whole_file(dir: &std::path::Path) -> std::path::PathBuf {
    // All that a reader needs, without the syncs that a writer does.
    fs::create_dir(dir.join("records")).unwrap();
    let lines: Vec<String> = (1..=RECORDS).map(|number| line(&record(number))).collect();
    leave_file(dir, "a", &lines)
}

/// The numbers of the records whose lines, with their newline, are in `bytes`
/// as they were written.
fn intact(whole: &[u8], bytes: &[u8]) -> Vec<u64> {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let written = whole.split_inclusive(|byte| *byte == b'\n').skip(1);
    (1..=RECORDS)
        .zip(written)
        .filter(|(_, line)| lines.contains(line))
        .map(|(number, _)| number)
        .collect()
}

/// What whole lines, changed or not, can be read as.
fn readable(bytes: &[u8]) -> Vec<Record> {
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| line.ends_with(b"\n"))
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

/// Opening must give every intact record as it was, or say which header is from
/// a newer release (a digit of it may have been hit).
fn check(dir: &std::path::Path, whole: &[u8], bytes: &[u8]) -> Result<(), TestCaseError> {
    match Ledger::open(dir) {
        Ok(ledger) => {
            let readable = readable(bytes);
            for number in intact(whole, bytes) {
                let expected = record(number);
                // Its own, unless a changed line names its run and comes first.
                let first = readable.iter().find(|record| record.run == expected.run);
                prop_assert!(readable.contains(&expected));
                prop_assert_eq!(ledger.get(expected.run), first);
            }
            let dropped = intact(whole, bytes).len() < RECORDS as usize;
            let cut_at_line = bytes.last() == Some(&b'\n') && whole.starts_with(bytes);
            let told = !ledger.warnings().is_empty() || bytes.is_empty() || cut_at_line;
            // A changed digit can leave a readable line, which is nobody's loss.
            let readable = ledger.runs() + ledger.duplicates() == RECORDS as usize;
            prop_assert!(!dropped || told || readable);
        }
        Err(LedgerError::NewerFormat { line, .. }) => {
            let first = whole.iter().position(|byte| *byte == b'\n');
            let header_hit = first.is_some_and(|end| bytes.get(..end) != whole.get(..end));
            prop_assert!(line == 1 && header_hit);
        }
        Err(other) => prop_assert!(false, "{other}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_cut_anywhere_keeps_its_whole_lines(at in any::<prop::sample::Index>()) {
        let dir = tempfile::tempdir().unwrap();
        let path = whole_file(dir.path());
        let whole = fs::read(&path).unwrap();
        let bytes = &whole[..at.index(whole.len() + 1)];
        fs::write(&path, bytes).unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        let kept: Vec<u64> = ledger.records().map(|record| record.seed).collect();
        prop_assert_eq!(&kept, &intact(&whole, bytes));
        let torn = !bytes.is_empty() && !bytes.ends_with(b"\n");
        prop_assert_eq!(ledger.warnings().len(), usize::from(torn));
    }

    #[test]
    fn bytes_changed_anywhere_harm_their_own_lines_alone(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = whole_file(dir.path());
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        for (at, byte) in &changes {
            bytes[at.index(whole.len())] = *byte;
        }
        fs::write(&path, &bytes).unwrap();
        check(dir.path(), &whole, &bytes)?;
    }

    #[test]
    fn a_block_of_zeros_or_junk_harms_its_own_lines_alone(
        at in any::<prop::sample::Index>(),
        block in prop_oneof![
            (1_usize..3000).prop_map(|size| vec![0; size]),
            prop::collection::vec(any::<u8>(), 1..600),
        ],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = whole_file(dir.path());
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        let start = at.index(bytes.len());
        let end = bytes.len().min(start + block.len());
        bytes[start..end].copy_from_slice(&block[..end - start]);
        fs::write(&path, &bytes).unwrap();
        check(dir.path(), &whole, &bytes)?;
    }

    #[test]
    fn a_file_that_arrives_in_pieces_reads_as_one_that_was_there(
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = whole_file(dir.path());
        let whole = fs::read(&path).unwrap();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len())).collect();
        ends.sort_unstable();
        fs::write(&path, b"").unwrap();
        let mut ledger = Ledger::open(dir.path()).unwrap();
        let mut runs = 0;
        for end in ends.into_iter().chain([whole.len()]) {
            fs::write(&path, &whole[..end]).unwrap();
            runs += ledger.refresh().unwrap();
            prop_assert_eq!(runs, intact(&whole, &whole[..end]).len());
        }
        prop_assert_eq!((ledger.runs(), ledger.duplicates()), (RECORDS as usize, 0));
        prop_assert_eq!(ledger.warnings(), vec![]);
    }
}
