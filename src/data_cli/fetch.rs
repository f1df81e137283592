//! `noisescale data fetch`: downloads official files from public mirrors.
//!
//! A file is downloaded beside its place, checked by its decompressed content,
//! and renamed: the data folder has the whole file or none. A mirror that fails
//! in any way hands over to the next.

use crate::output::{print, tell};
use engine::data::official::Download;
use engine::data::{DataError, Store};
use indicatif::{DecimalBytes, ProgressBar, ProgressStyle};
use spec::DatasetName;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::time::Duration;

/// Names a mirror in place of the public ones: its folder NAME has the files of data set NAME.
const MIRROR_VARIABLE: &str = "NOISESCALE_MIRROR";

const CONNECT_LIMIT: Duration = Duration::from_secs(15);

/// A mirror that is silent for so long has failed.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// Why a download did not come.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No mirror had the right content.
    #[error(
        "{dataset}: no mirror gave {file} ({reasons}); try again later, or get the file by \
         another way and run `noisescale data import {dataset} PATH`"
    )]
    AllMirrors {
        /// Whose file.
        dataset: DatasetName,
        /// The download.
        file: &'static str,
        /// Each mirror and what went wrong there.
        reasons: String,
    },
}

/// What went wrong with one mirror.
enum Failure {
    /// The mirror is to blame: the next one may do better.
    Mirror(String),
    /// No mirror can help, as when the disk is full.
    Here(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Here(error.into())
    }
}

/// Brings what is missing of a data set.
pub fn fetch(store: &Store, dataset: DatasetName) -> anyhow::Result<()> {
    if dataset == DatasetName::Digits {
        return print(&format!("{}\n", DataError::Embedded(dataset)));
    }
    let folder = store.folder(dataset);
    let todo = store.to_download(dataset);
    if todo.is_empty() {
        return print(&format!(
            "{dataset}: already there and verified in {}\n",
            folder.display()
        ));
    }
    let total = todo.iter().map(|download| download.bytes).sum();
    tell!(
        "{dataset}: {} in {} to download",
        DecimalBytes(total),
        if todo.len() == 1 {
            "1 file".into()
        } else {
            format!("{} files", todo.len())
        }
    );
    let bar = progress_bar(total);
    let agent = agent();
    for download in &todo {
        fetch_one(&agent, store, dataset, download, &bar)?;
    }
    bar.finish_and_clear();
    print(&format!("{dataset}: verified in {}\n", folder.display()))
}

fn fetch_one(
    agent: &ureq::Agent,
    store: &Store,
    dataset: DatasetName,
    download: &Download,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    bar.set_message(download.file);
    if !io::stderr().is_terminal() {
        tell!("{}", download.file);
    }
    let before = bar.position();
    let mut reasons = Vec::new();
    for url in addresses(dataset, download) {
        match fetch_from(agent, &url, store, dataset, download, bar) {
            Ok(()) => {
                bar.set_position(before + download.bytes);
                return Ok(());
            }
            Err(Failure::Mirror(reason)) => reasons.push(format!("{url}: {reason}")),
            Err(Failure::Here(error)) => return Err(error),
        }
        bar.set_position(before);
    }
    bar.finish_and_clear();
    Err(FetchError::AllMirrors {
        dataset,
        file: download.file,
        reasons: reasons.join("; "),
    })?
}

fn fetch_from(
    agent: &ureq::Agent,
    url: &str,
    store: &Store,
    dataset: DatasetName,
    download: &Download,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let incoming = store.incoming()?;
    let place = incoming.path().join(download.file);
    save(agent, url, &place, 2 * download.bytes, bar)?;
    let imported = match store.import(dataset, &place) {
        Ok(imported) => imported,
        Err(DataError::Flawed { flaw, .. }) => {
            return Err(Failure::Mirror(format!("the content {flaw}")));
        }
        Err(DataError::NothingToImport { .. }) => {
            return Err(Failure::Mirror("the content is not the archive".into()));
        }
        Err(other) => return Err(other.into()),
    };
    let wanted = download.holds.iter().map(|file| file.name);
    let lacking: Vec<_> = wanted
        .filter(|name| imported.missing.contains(name))
        .collect();
    if lacking.is_empty() {
        Ok(())
    } else {
        Err(Failure::Mirror(format!(
            "the archive lacks {}",
            lacking.join(", ")
        )))
    }
}

/// Copies what an address sends, up to `limit` bytes, to a file.
fn save(
    agent: &ureq::Agent,
    url: &str,
    place: &Path,
    limit: u64,
    bar: &ProgressBar,
) -> Result<(), Failure> {
    let mut response = agent
        .get(url)
        .call()
        .map_err(|error| Failure::Mirror(error.to_string()))?;
    let mut body = response.body_mut().with_config().limit(limit).reader();
    let unwritable = |reason| DataError::Unwritable {
        path: place.into(),
        reason,
    };
    let mut file = File::create(place).map_err(unwritable)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match body.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                file.write_all(&buffer[..length]).map_err(unwritable)?;
                bar.inc(length as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::Mirror(format!("the transfer broke off ({error})"))),
        }
    }
}

/// Where to ask for a download, in order.
fn addresses(dataset: DatasetName, download: &Download) -> Vec<String> {
    let file = download.file;
    match std::env::var(MIRROR_VARIABLE) {
        Ok(own) if !own.is_empty() => {
            vec![format!("{}/{dataset}/{file}", own.trim_end_matches('/'))]
        }
        _ => {
            let public = download.mirrors.iter();
            public.map(|mirror| format!("{mirror}/{file}")).collect()
        }
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .user_agent(concat!("noisescale/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(CONNECT_LIMIT))
        .timeout_recv_response(Some(SILENCE_LIMIT))
        .timeout_per_read(Some(SILENCE_LIMIT))
        .build()
        .into()
}

/// A bar on a terminal; elsewhere it stays hidden.
fn progress_bar(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{msg:28} {bar:30} {decimal_bytes:>9} of {decimal_total_bytes} {decimal_bytes_per_sec:>12}",
    );
    ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
