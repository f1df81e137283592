//! `noisescale data` through the program itself. Downloads come from a small
//! server in the test; real content is served where the machine has it.

mod skip;

use engine::data::{State, Store};
use flate2::Compression;
use flate2::write::GzEncoder;
use spec::DatasetName;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

/// What the server answers to a path.
enum Answer {
    /// The whole body.
    Body(Vec<u8>),
    /// The announced length and less than that.
    Cut(usize, Vec<u8>),
    /// No length: the body ends with the connection.
    Unmeasured(Vec<u8>),
    /// 404.
    Absent,
}

struct Server {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves until the test ends.
    fn start(answer: impl Fn(&str) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let path = read_request(&stream);
                seen.lock().unwrap().push(path.clone());
                // A client that hangs up has what it wanted.
                let _ = send(stream, answer(&path));
            }
        });
        Self { address, requests }
    }

    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn read_request(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let _headers = lines.take_while(|line| !line.is_empty()).count();
    first.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn send(mut stream: TcpStream, answer: Answer) -> std::io::Result<()> {
    let (status, length, body) = match answer {
        Answer::Body(body) => ("200 OK", Some(body.len()), body),
        Answer::Cut(length, body) => ("200 OK", Some(length), body),
        Answer::Unmeasured(body) => ("200 OK", None, body),
        Answer::Absent => ("404 Not Found", Some(0), Vec::new()),
    };
    write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n")?;
    if let Some(length) = length {
        write!(stream, "Content-Length: {length}\r\n")?;
    }
    write!(stream, "\r\n")?;
    stream.write_all(&body)
}

fn data(store: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noisescale"));
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.env_remove("NOISESCALE_MIRROR");
    command.env("NOISESCALE_DATA", store);
    command.envs(environment.iter().copied());
    command.arg("data").args(arguments).output().unwrap()
}

fn fetch(store: &Path, name: &str, mirror: &str) -> Output {
    data(store, &["fetch", name], &[("NOISESCALE_MIRROR", mirror)])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The last line of standard error of a command that has failed in an orderly way.
fn failure(output: &Output) -> String {
    let errors = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    errors.lines().last().unwrap_or_default().to_owned()
}

/// Names of everything in a folder and below, hidden or not.
fn everything(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        names.push(entry.file_name().to_string_lossy().into_owned());
        names.extend(everything(&entry.path()));
    }
    names.sort();
    names
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// The content of a real official file, by the path under which a mirror has it.
fn real_content(store: &Store, path: &str) -> Vec<u8> {
    let plain = store
        .root()
        .join(path.trim_start_matches('/').trim_end_matches(".gz"));
    gzip(&fs::read(plain).unwrap())
}

fn real(dataset: DatasetName) -> Option<Store> {
    let store = Store::from_environment();
    let there = store.status(dataset).state == State::Verified;
    if !there {
        let name = dataset.to_string();
        skip::skipped(&name, &format!("{name} is not in the data folder"));
    }
    there.then_some(store)
}

#[test]
fn an_empty_folder_is_listed_with_the_commands_that_fill_it() {
    let folder = tempfile::tempdir().unwrap();
    let listed = data(folder.path(), &["list"], &[]);
    assert!(listed.status.success());
    let listed = text(&listed.stdout);
    for name in ["mnist", "fashion-mnist", "cifar10"] {
        let command = format!("noisescale data fetch {name}");
        assert!(listed.contains(&command), "{listed}");
    }
    let json = data(folder.path(), &["list", "--json"], &[]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json[0]["dataset"], "digits");
    assert_eq!(json[0]["state"], "embedded");
    assert_eq!(json[1]["state"], "missing");
    assert_eq!(json[1]["command"], "noisescale data fetch mnist");
    assert_eq!(json[3]["download_bytes"], 170_052_171);
}

#[test]
fn a_name_with_a_typo_gets_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();
    let output = data(folder.path(), &["fetch", "mnits"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("similar value exists: 'mnist'"));
}

#[test]
fn the_digits_need_no_fetching() {
    let folder = tempfile::tempdir().unwrap();
    let output = fetch(folder.path(), "digits", "http://127.0.0.1:9");
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("part of the program"));
}

#[test]
fn wrong_content_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|_| Answer::Body(gzip(&vec![0; 47_040_016])));
    let sentence = failure(&fetch(folder.path(), "mnist", &server.address));
    assert!(
        sentence.contains("6bbc9ace898e44ae57da46a324031adb"),
        "{sentence}"
    );
    let url = format!("{}/mnist/train-images-idx3-ubyte.gz", server.address);
    assert!(sentence.contains(&url), "{sentence}");
    assert!(
        sentence.contains("noisescale data import mnist PATH"),
        "{sentence}"
    );
    assert!(everything(folder.path()).is_empty());
}

#[test]
fn a_refused_connection_names_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let sentence = failure(&fetch(folder.path(), "cifar10", &format!("http://{free}")));
    assert!(sentence.to_lowercase().contains("refused"), "{sentence}");
    assert!(
        sentence.contains("noisescale data import cifar10 PATH"),
        "{sentence}"
    );
    assert!(everything(folder.path()).is_empty());
}

#[test]
fn a_truncated_body_is_found_out() {
    let packed = gzip(&vec![0; 47_040_016]);
    let part = packed[..packed.len() / 2].to_vec();
    let (whole, half) = (packed.len(), part.clone());
    let announced = Server::start(move |_| Answer::Cut(whole, half.clone()));
    let unannounced = Server::start(move |_| Answer::Unmeasured(part.clone()));
    for (server, word) in [(announced, "broke off"), (unannounced, "truncated")] {
        let folder = tempfile::tempdir().unwrap();
        let sentence = failure(&fetch(folder.path(), "mnist", &server.address));
        assert!(sentence.contains(word), "{sentence}");
        assert!(everything(folder.path()).is_empty());
    }
}

#[test]
fn a_body_without_end_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|_| Answer::Body(vec![7; 30_000_000]));
    let sentence = failure(&fetch(folder.path(), "mnist", &server.address));
    assert!(sentence.contains("noisescale data import"), "{sentence}");
    assert!(everything(folder.path()).is_empty());
}

#[test]
fn an_absent_file_and_a_page_instead_of_an_archive_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(|path| match path {
        "/cifar10/cifar-10-binary.tar.gz" => Answer::Body(b"<html>Please log in</html>".to_vec()),
        _ => Answer::Absent,
    });
    let sentence = failure(&fetch(folder.path(), "fashion-mnist", &server.address));
    assert!(sentence.contains("404"), "{sentence}");
    let sentence = failure(&fetch(folder.path(), "cifar10", &server.address));
    assert!(sentence.contains("not the archive"), "{sentence}");
    assert!(everything(folder.path()).is_empty());
}

#[test]
fn a_proxy_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let proxy = Server::start(|_| Answer::Absent);
    let environment = [
        ("NOISESCALE_MIRROR", "http://mirror.invalid"),
        ("HTTP_PROXY", proxy.address.as_str()),
    ];
    failure(&data(folder.path(), &["fetch", "mnist"], &environment));
    let requests = proxy.requests();
    assert!(
        requests.iter().any(|r| r.contains("mirror.invalid")),
        "{requests:?}"
    );
}

#[test]
fn a_data_folder_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let blocked = folder.path().join("file");
    fs::write(&blocked, "not a folder").unwrap();
    let server = Server::start(|_| Answer::Absent);
    let sentence = failure(&fetch(&blocked, "mnist", &server.address));
    assert!(sentence.contains("NOISESCALE_DATA"), "{sentence}");
    assert!(
        sentence.contains(&blocked.display().to_string()),
        "{sentence}"
    );
}

#[test]
fn imports_say_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let none = folder.path().join("none");
    let none = none.to_str().unwrap();
    let sentence = failure(&data(&store, &["import", "mnist", none], &[]));
    assert!(sentence.contains(none), "{sentence}");
    let altered = folder.path().join("t10k-labels-idx1-ubyte");
    fs::write(&altered, vec![0; 10_008]).unwrap();
    let altered = altered.to_str().unwrap();
    let sentence = failure(&data(&store, &["import", "mnist", altered], &[]));
    assert!(
        sentence.contains(altered) && sentence.contains("checksum"),
        "{sentence}"
    );
    assert!(everything(&store).is_empty());
}

#[test]
fn a_fetch_goes_on_where_the_last_one_failed() {
    let Some(real) = real(DatasetName::Mnist) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let content = real.clone();
    let broken = Server::start(move |path| match path {
        "/mnist/t10k-images-idx3-ubyte.gz" => Answer::Body(gzip(b"other")),
        _ => Answer::Body(real_content(&content, path)),
    });
    let sentence = failure(&fetch(folder.path(), "mnist", &broken.address));
    assert!(sentence.contains("t10k-images-idx3-ubyte.gz"), "{sentence}");
    let left = everything(folder.path());
    assert_eq!(
        left,
        [
            "mnist",
            "train-images-idx3-ubyte",
            "train-labels-idx1-ubyte"
        ]
    );
    let listed = text(&data(folder.path(), &["list"], &[]).stdout);
    assert!(listed.contains("incomplete"), "{listed}");

    let content = real.clone();
    let whole = Server::start(move |path| Answer::Body(real_content(&content, path)));
    // A slash at the end of the mirror makes no difference.
    let output = fetch(folder.path(), "mnist", &format!("{}/", whole.address));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        whole.requests(),
        [
            "/mnist/t10k-images-idx3-ubyte.gz",
            "/mnist/t10k-labels-idx1-ubyte.gz"
        ]
    );
    assert_eq!(
        Store::at(folder.path()).status(DatasetName::Mnist).state,
        State::Verified
    );
    assert_eq!(everything(folder.path()).len(), 5);

    let again = fetch(folder.path(), "mnist", &whole.address);
    assert!(text(&again.stdout).contains("already there and verified"));
    assert!(whole.requests().is_empty());
}

#[test]
fn real_cifar10_comes_out_of_its_archive() {
    let Some(real) = real(DatasetName::Cifar10) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("cifar-10-binary.tar.gz");
    let encoder = GzEncoder::new(fs::File::create(&archive).unwrap(), Compression::none());
    let mut builder = tar::Builder::new(encoder);
    builder
        .append_dir_all("cifar-10-batches-bin", real.folder(DatasetName::Cifar10))
        .unwrap();
    builder.into_inner().unwrap().finish().unwrap();
    let store = folder.path().join("store");
    let output = data(
        &store,
        &["import", "cifar10", archive.to_str().unwrap()],
        &[],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("6 files"),
        "{}",
        text(&output.stdout)
    );
    assert_eq!(
        Store::at(&store).status(DatasetName::Cifar10).state,
        State::Verified
    );
    // Wherever the archive is cut, it gives one sentence and nothing more.
    let length = fs::metadata(&archive).unwrap().len();
    let cut = fs::File::options().write(true).open(&archive).unwrap();
    for left in [length / 2, length / 10, 100] {
        cut.set_len(left).unwrap();
        let other = folder.path().join("other");
        let path = archive.to_str().unwrap();
        let sentence = failure(&data(&other, &["import", "cifar10", path], &[]));
        assert!(sentence.contains(path), "{sentence}");
        assert!(everything(&other).is_empty());
    }
}
