//! What the tests of the page share: studies with made-up records, the server as a
//! child process, and a plain HTTP client.

#![allow(dead_code)] // each user takes a part of it

#[path = "../program/mod.rs"]
pub mod program;

pub use program::noisescale;
use spec::{CurvePoint, Outcome, Record, Run, Study, plan};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// A study of two searches and three widths whose optima are bracketed.
pub const STUDY: &str = r#"
title = "Digits, one hidden layer, NTK"
seeds = 6
[task]
dataset = "digits"
[family]
kind = "mlp"
hidden = [1]
widths = [8, 16, 32]
scheme = "ntk"
[search]
kind = "paired"
learning_rate = 5.0
batch_sizes = [4, 8, 16, 32, 64, 128]
batch_size = 16
learning_rates = [0.5, 1.0, 2.0, 4.0, 8.0]
extend = 0
[time]
epochs = 8
"#;

/// Ten thousand runs: 8 widths, 25 values, 50 seeds.
pub const LARGE: &str = r#"
title = "Ten thousand runs"
seeds = 50
[task]
dataset = "digits"
[family]
kind = "mlp"
hidden = [1]
widths = [8, 12, 16, 24, 32, 48, 64, 96]
scheme = "ntk"
[search]
kind = "paired"
learning_rate = 5.0
batch_sizes = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]
batch_size = 16
learning_rates = [0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0]
[time]
epochs = 40
"#;

/// Reads a study file's text.
pub fn study(name: &str, text: &str) -> Study {
    Study::parse(name, Path::new("study.toml"), text, &[]).unwrap()
}

/// Makes the folder of a study, with a record of every run that `keep` says.
pub fn folder(at: &Path, text: &str, keep: impl Fn(usize, &Run) -> bool) -> PathBuf {
    for inner in ["records", "claims", "checkpoints"] {
        std::fs::create_dir_all(at.join(inner)).unwrap();
    }
    std::fs::write(at.join("study.toml"), text).unwrap();
    let name = at.file_name().unwrap().to_string_lossy().into_owned();
    let runs = plan(&study(&name, text));
    let kept = (runs.iter().enumerate()).filter(|(place, run)| keep(*place, run));
    append(at, "first", kept.map(|(_, run)| run));
    at.into()
}

/// Appends records to a file of the ledger, as a process that trains would.
pub fn append<'a>(at: &Path, writer: &str, runs: impl Iterator<Item = &'a Run>) {
    let path = at.join("records").join(format!("{writer}.jsonl"));
    let mut text = String::new();
    if !path.exists() {
        text += "{\"noisescale_ledger\":1,\"writer\":\"w\",\"host\":\"h\",\"pid\":1,\"version\":\"0\"}\n";
    }
    for run in runs {
        writeln!(text, "{}", serde_json::to_string(&record(run)).unwrap()).unwrap();
    }
    let mut file = (std::fs::OpenOptions::new().create(true).append(true))
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// A number between −1 and 1 that depends on a run alone.
fn noise(run: &Run) -> f64 {
    let id = run.id().to_string();
    let bits = u32::from_str_radix(&id[..8], 16).unwrap();
    f64::from(bits) / f64::from(u32::MAX) * 2.0 - 1.0
}

/// A made-up record: accuracy peaks at ḡ = 60·w and falls faster beyond it.
pub fn record(run: &Run) -> Record {
    let width = f64::from(run.width.get());
    let distance = (run.normalized_noise().get() / (60.0 * width)).ln();
    let loss = match distance > 0.0 {
        true => 0.012 * distance.powi(2) + 0.01 * distance.powi(3),
        false => 0.006 * distance.powi(2),
    };
    let accuracy = 0.985 - 0.05 / width.sqrt() - loss + 0.004 * noise(run);
    let evaluation = |at: u64| CurvePoint {
        step: run.steps * at / 20,
        training_loss: Some(2.0 * (-(at as f64) / 4.0).exp()),
        test_accuracy: accuracy * (1.0 - 0.4 * (-(at as f64)).exp()),
        validation_accuracy: accuracy * (1.0 - 0.4 * (-(at as f64)).exp()) - 0.001 * noise(run),
    };
    let (outcome, evaluations) = match distance > 3.2 {
        true => (Outcome::Diverged { step: 3 }, 0),
        false => (
            Outcome::Trained {
                test_accuracy: evaluation(20).test_accuracy,
            },
            20,
        ),
    };
    let curve = (1..=evaluations).map(evaluation).collect();
    Record::new(run, outcome, curve, 0.5, "cpu avx2".into())
}

/// `noisescale serve`, ended when this is dropped.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// The address that it printed.
    pub url: String,
}

impl Server {
    /// Serves on a free port.
    pub fn start(dir: &Path, args: &[&str]) -> Self {
        let all = [&["serve", "--port", "0"], args].concat();
        let mut child = noisescale(dir, &all)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut words = BufReader::new(child.stdout.take().unwrap());
        words.read_line(&mut line).unwrap();
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("http://"));
        let url = url
            .unwrap_or_else(|| panic!("no address in {line:?}"))
            .to_owned();
        let port = url.split([':', '/']).nth(4).unwrap().parse().unwrap();
        Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            url,
        }
    }

    /// The content of a page, which must be there.
    pub fn get(&self, path: &str) -> String {
        let answer = self.ask(path, "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    /// The answer to GET with more headers, each ended by `\r\n`.
    pub fn ask(&self, path: &str, headers: &str) -> Answer {
        let host = format!("Host: localhost:{}\r\n", self.address.port());
        let text = format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n");
        self.send(text.as_bytes())
    }

    /// The answer to any bytes.
    pub fn send(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        stream.write_all(bytes).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head,
            body: all[end + 4..].to_vec(),
        }
    }

    /// Whether it still runs.
    pub fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer over HTTP.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// The content as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let start = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&start))
    }
}
