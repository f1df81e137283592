//! `noisescale serve` over plain connections: what it shows, whom it answers, and what
//! it withstands. `browser/` opens its pages in a browser.

mod page;

use page::{LARGE, STUDY, Server, append, folder, noisescale, study};
use serde_json::Value;
use spec::plan;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// Pages of many runs are whole and small beside their ledger. For the
/// numbers of docs/REPORT.md: `cargo test --release --test serve ten_thousand -- --nocapture`.
#[test]
fn ten_thousand_runs() {
    let dir = tempfile::tempdir().unwrap();
    let at = folder(&dir.path().join("large"), LARGE, |_, _| true);
    let bytes: u64 = std::fs::read_dir(at.join("records"))
        .unwrap()
        .map(|f| f.unwrap().metadata().unwrap().len())
        .sum();
    println!(
        "ledger: {} runs, {bytes} bytes",
        plan(&study("large", LARGE)).len()
    );
    let start = Instant::now();
    let server = Server::start(dir.path(), &["large"]);
    println!("listening after {:?}", start.elapsed());
    let first = server.get("/s/large");
    println!(
        "first page after {:?}: {} bytes",
        start.elapsed(),
        first.len()
    );
    while server.get("/s/large").contains("Reading the ledger") {
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("first whole page after {:?}", start.elapsed());
    let point = "/s/large/points/batch-size-w32-b16-e5";
    for path in [
        "/s/large",
        "/s/large/parts",
        point,
        "/s/large/runs.csv",
        "/page.js",
        "/page.css",
    ] {
        let start = Instant::now();
        let text = server.get(path);
        let taken = start.elapsed();
        println!("{path}: {} bytes in {taken:?}", text.len());
        if path == "/s/large" {
            assert!(20 * text.len() as u64 <= bytes, "{} bytes", text.len());
            assert!(text.contains("10,000 of 10,000 planned runs recorded"));
        }
        if path.ends_with("runs.csv") {
            // After the answer's head, names and a line for every run.
            assert!(text.lines().count() > 10_000);
        }
    }
}

/// A folder with a study of which some runs are recorded.
fn some_recorded() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let at = folder(&dir.path().join("digits"), STUDY, |place, _| place % 2 == 0);
    (dir, at)
}

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Asks until the answer holds some words.
fn until(server: &Server, path: &str, words: &str) -> String {
    let start = Instant::now();
    loop {
        let text = server.ask(path, "").text();
        if text.contains(words) {
            return text;
        }
        assert!(start.elapsed() < PATIENCE, "never `{words}` in {text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn every_link_of_the_pages_leads_somewhere() {
    let (dir, at) = some_recorded();
    folder(&dir.path().join("other study"), STUDY, |_, _| true);
    let server = Server::start(dir.path(), &["digits", "other study", at.to_str().unwrap()]);
    let mut queue = vec!["/".to_string()];
    let mut seen: Vec<String> = Vec::new();
    let twin = until(&server, "/s/digits-2", "planned runs recorded");
    assert!(
        twin.contains("<code>digits-2</code>"),
        "it has a name of its own"
    );
    while let Some(path) = queue.pop() {
        // Pages of points are alike: those of one width will do.
        if seen.contains(&path) || (path.contains("/points/") && !path.contains("batch-size-w8-")) {
            continue;
        }
        let text = server.get(&path);
        let links = text
            .split("href=\"")
            .skip(1)
            .chain(text.split("src=\"").skip(1));
        for link in links.filter_map(|rest| rest.split(['"', '#']).next()) {
            assert!(link.is_empty() || link.starts_with('/'), "{path}: {link}");
            if !link.is_empty() {
                queue.push(link.to_owned());
            }
        }
        seen.push(path);
    }
    for wanted in [
        "/s/digits",
        "/s/other-study",
        "/s/digits-2",
        "/s/digits/runs.csv",
        "/s/digits/results.json",
        "/s/digits/points/batch-size-w8-b16-e5",
    ] {
        assert!(
            seen.iter().any(|path| path == wanted),
            "{wanted} is not linked"
        );
    }
    assert!(seen.iter().any(|path| path.ends_with(".png")));
    assert!(
        server
            .get("/s/digits")
            .contains("99 of 198 planned runs recorded")
    );
    // The files are those of the other commands.
    let rows = noisescale(dir.path(), &["export", "digits"])
        .output()
        .unwrap()
        .stdout;
    assert_eq!(
        server.get("/s/digits/runs.csv"),
        String::from_utf8(rows).unwrap()
    );
    let results: Value = serde_json::from_str(&server.get("/s/digits/results.json")).unwrap();
    assert_eq!(results["studies"][0]["runs"]["recorded"], 99);
}

#[test]
fn a_study_that_grows_changes_the_parts_it_must() {
    let (dir, at) = some_recorded();
    let server = Server::start(dir.path(), &["digits"]);
    until(&server, "/s/digits", "99 of 198");
    let stamps = |server: &Server| -> Vec<(String, String)> {
        let listed: Value = serde_json::from_str(&server.get("/s/digits/parts")).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let parts = listed["parts"].as_array().unwrap();
        parts
            .iter()
            .map(|pair| (text(&pair[0]), text(&pair[1])))
            .collect()
    };
    let before = stamps(&server);
    let page = server.ask("/s/digits/parts/s0-status", "");
    let known = format!("If-None-Match: {}\r\n", page.header("ETag").unwrap());
    let runs = plan(&study("digits", STUDY));
    append(&at, "second", runs.iter().skip(1).take(1));
    until(&server, "/s/digits", "100 of 198");
    let after = stamps(&server);
    let changed: Vec<&str> = (before.iter().zip(&after))
        .filter(|(one, other)| one != other)
        .map(|(_, (name, _))| name.as_str())
        .collect();
    assert!(changed.contains(&"s0-status"), "{changed:?}");
    // One run of the smallest width and of the batch-size search: what is about the other widths,
    // or the other search alone, is the same.
    let others = |name: &&String| {
        let points = ["s0-points-1", "s0-points-2"].contains(&name.as_str());
        points || name.contains("scan-learning-rate") || name.contains("peak-accuracy")
    };
    let others: Vec<&String> = after.iter().map(|(name, _)| name).filter(others).collect();
    assert_eq!(others.len(), 5, "{after:?}");
    for other in others {
        assert!(!changed.contains(&other.as_str()), "{other} in {changed:?}");
    }
    assert_eq!(server.ask("/s/digits/parts/s0-status", &known).status, 200);
    let page = server.ask("/s/digits/parts/s0-status", "");
    let known = format!("If-None-Match: {}\r\n", page.header("ETag").unwrap());
    let again = server.ask("/s/digits/parts/s0-status", &known);
    assert_eq!((again.status, again.body.len()), (304, 0));
}

#[test]
fn runs_that_are_being_trained_are_shown() {
    let (dir, at) = some_recorded();
    let server = Server::start(dir.path(), &["digits"]);
    let point = "/s/digits/points/batch-size-w8-b16-e5";
    until(&server, point, "no record");
    let runs = plan(&study("digits", STUDY));
    let run = (runs.iter().enumerate())
        .find(|(place, run)| place % 2 == 1 && run.batch_size.get() == 16)
        .unwrap()
        .1;
    let now = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_millis();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let lines = format!(
        "{{\"noisescale_ledger\":1,\"writer\":\"other\",\"host\":\"not {}\",\"pid\":1,\"version\":\"0\"}}\n\
         {{\"at_ms\":{now},\"claim\":[\"{}\"]}}\n",
        host.trim(),
        run.id()
    );
    std::fs::write(at.join("claims/other.jsonl"), lines).unwrap();
    until(&server, "/s/digits", "1 process at work on 1 run,");
    until(&server, point, "being trained");
    std::fs::remove_file(at.join("claims/other.jsonl")).unwrap();
    let start = Instant::now();
    while server.get(point).contains("being trained") {
        assert!(start.elapsed() < PATIENCE, "its claim is never given up");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn folders_that_break_say_so_and_mend() {
    let (dir, at) = some_recorded();
    folder(&dir.path().join("empty"), STUDY, |_, _| false);
    let mut server = Server::start(dir.path(), &["digits", "empty"]);
    until(&server, "/s/empty", "0 of 198 planned runs recorded");
    until(&server, "/s/digits", "99 of 198");
    std::fs::write(at.join("study.toml"), "seeds = \"many\"\n").unwrap();
    let text = until(&server, "/s/digits", "role=\"alert\"");
    // What was known is still there, and the overview says it too.
    assert!(
        text.contains("study.toml") && text.contains("99 of 198"),
        "{text}"
    );
    assert!(server.get("/").contains("role=\"alert\""));
    std::fs::rename(&at, dir.path().join("gone")).unwrap();
    until(&server, "/s/digits", "contains no study");
    std::fs::rename(dir.path().join("gone"), &at).unwrap();
    std::fs::write(at.join("study.toml"), STUDY).unwrap();
    let start = Instant::now();
    while server.get("/s/digits").contains("role=\"alert\"") {
        assert!(start.elapsed() < PATIENCE, "it never mends");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(server.lives());
}

#[test]
fn no_path_reaches_a_file() {
    let (dir, at) = some_recorded();
    std::fs::write(dir.path().join("secret"), "the secret").unwrap();
    std::fs::write(at.join("study.toml.bak"), "the secret").unwrap();
    let server = Server::start(dir.path(), &["digits"]);
    until(&server, "/s/digits", "99 of 198");
    for path in [
        "/secret",
        "/../secret",
        "/s/../secret",
        "/s/digits/../../secret",
        "/s/digits/%2e%2e/%2e%2e/secret",
        "/s/digits/figures/../../../secret",
        "/s/digits/figures/..%2f..%2fsecret.svg",
        "/s/digits/parts/../../secret",
        "/s/digits/points/../../secret",
        "/s/digits/study.toml",
        "/s/digits/study.toml.bak",
        "/s/digits/records/first.jsonl",
        "/digits/study.toml",
        "//etc/passwd",
        "/etc/passwd",
        "/s//etc/passwd",
        "/s/digits/figures/%00.png",
        "/s/digits/figures/.png",
        "/s/digits/figures/png",
        "/s/digits/",
        "/parts",
        "/%ff",
    ] {
        let answer = server.ask(path, "");
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
        assert!(
            !answer.text().contains("secret\n") && !answer.text().contains("root:"),
            "{path}"
        );
    }
}

#[test]
fn strangers_are_refused() {
    let (dir, _) = some_recorded();
    let mut server = Server::start(dir.path(), &["digits"]);
    for host in [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(server.send(text.as_bytes()).status, 403, "{host}");
    }
    let answer = server.ask("/s/digits", "");
    for (name, words) in [
        ("Content-Security-Policy", "default-src 'none'"),
        ("X-Content-Type-Options", "nosniff"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ] {
        assert!(
            answer
                .header(name)
                .is_some_and(|value| value.contains(words)),
            "{name}"
        );
    }
    // The policy forbids them, and there are none.
    let page = answer.text();
    for inline in [
        "<style",
        "style=\"",
        "<script>",
        "onclick",
        "javascript:",
        "http://",
        "https://",
    ] {
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(inline), "{inline}");
    }
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET /\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let status = server.send(bytes).status;
        assert!([400, 405].contains(&status), "{status}");
    }
    assert!(server.lives());
}

#[test]
fn beyond_this_machine_a_token_is_asked_for() {
    let (dir, _) = some_recorded();
    for args in [&["--host", "0.0.0.0", "digits"][..], &["--token", "digits"]] {
        let server = Server::start(dir.path(), args);
        let token = server.url.split("token=").nth(1).unwrap().to_owned();
        assert_eq!(server.ask("/s/digits", "").status, 403);
        assert_eq!(server.ask("/page.js", "").status, 403);
        assert_eq!(
            server
                .ask("/?token=0123456789abcdef0123456789abcdef", "")
                .status,
            403
        );
        let answer = server.ask(&format!("/?token={token}"), "");
        assert_eq!((answer.status, answer.header("Location")), (303, Some("/")));
        let elsewhere = server.ask(&format!("//evil.example/?token={token}"), "");
        assert_eq!(elsewhere.header("Location"), Some("/evil.example/"));
        let cookie = answer
            .header("Set-Cookie")
            .unwrap()
            .split(';')
            .next()
            .unwrap()
            .to_owned();
        let page = server.ask("/s/digits", &format!("Cookie: {cookie}\r\n"));
        assert_eq!(page.status, 200);
        assert!(!page.text().contains(&token), "the page tells the token");
    }
}

#[test]
fn mistakes_end_in_a_sentence() {
    let (dir, _) = some_recorded();
    let fails = |args: &[&str], words: &str| {
        let output = noisescale(dir.path(), args).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    fails(
        &["serve", "digits", "--port", &port],
        "is taken; give another with --port",
    );
    fails(&["serve", "nowhere"], "nowhere: contains no study");
    fails(&["serve", "."], "contains no study");
    fails(&["serve"], "DIR");
    fails(&["serve", "digits", "--host", "somewhere"], "--host");
    fails(
        &["serve", "digits", "--host", "192.0.2.1"],
        "not an address of this machine",
    );
}

#[test]
fn many_readers_at_once() {
    let (dir, _) = some_recorded();
    let mut server = Server::start(dir.path(), &["digits"]);
    until(&server, "/s/digits", "99 of 198");
    let id = "scan-batch-size-search-against-batch-size-digits";
    let paths = [
        "/s/digits".to_owned(),
        "/s/digits/parts".into(),
        format!("/s/digits/figures/{id}.png"),
        "/s/digits/points/batch-size-w8-b16-e5".into(),
        "/s/digits/runs.csv".into(),
    ];
    std::thread::scope(|scope| {
        for at in 0..40 {
            let (server, paths) = (&server, &paths);
            scope.spawn(move || {
                for turn in 0..5 {
                    let path = &paths[(at + turn) % paths.len()];
                    assert!(!server.get(path).is_empty(), "{path}");
                }
            });
        }
    });
    assert!(server.lives());
}
