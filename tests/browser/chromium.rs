//! A headless Chromium, spoken to in its DevTools protocol over two pipes: no driver, no
//! sockets and no crates beyond JSON.
//!
//! Chromium reads messages from file descriptor 3 and writes to 4, each ended by a zero
//! byte. A shell opens two named pipes as these.

use crate::skip::skipped;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one page, ended when this is dropped.
pub struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    next: u64,
    session: Option<String>,
    /// Where downloads go.
    pub downloads: PathBuf,
    _dir: tempfile::TempDir,
}

/// The program, from `NOISESCALE_CHROMIUM` or the path; says so where there is none.
pub fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("NOISESCALE_CHROMIUM") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path)
        .flat_map(|dir| names.map(|name| dir.join(name)))
        .find(|file| file.is_file());
    if found.is_none() {
        let why = "no chromium; install one or name it in NOISESCALE_CHROMIUM";
        skipped("chromium", why);
    }
    found
}

impl Browser {
    /// Starts a browser with an empty page.
    pub fn start(program: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (inward, outward) = (dir.path().join("in"), dir.path().join("out"));
        let made = Command::new("mkfifo").args([&inward, &outward]).status();
        assert!(made.unwrap().success());
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$INWARD\" 4>\"$OUTWARD\""])
            .arg(program)
            .args(["--headless", "--remote-debugging-pipe", "--no-sandbox"])
            .args(["--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--force-color-profile=srgb", "--hide-scrollbars"])
            .arg(format!(
                "--user-data-dir={}",
                dir.path().join("profile").display()
            ))
            .env("INWARD", &inward)
            .env("OUTWARD", &outward)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // In the order of the shell: each end waits for the other.
        let to = OpenOptions::new().write(true).open(&inward).unwrap();
        let reader = BufReader::new(File::open(&outward).unwrap());
        let (sender, from) = channel();
        std::thread::spawn(move || {
            for message in reader.split(0) {
                let Ok(bytes) = message else { break };
                let Ok(value) = serde_json::from_slice(&bytes) else {
                    break;
                };
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let downloads = dir.path().join("downloads");
        std::fs::create_dir(&downloads).unwrap();
        let mut browser = Self {
            child,
            to,
            from,
            next: 0,
            session: None,
            downloads,
            _dir: dir,
        };
        browser.open_page();
        browser
    }

    fn open_page(&mut self) {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", attach);
        let behaviour = json!({ "behavior": "allow", "downloadPath": self.downloads });
        self.call("Browser.setDownloadBehavior", behaviour);
        self.session = session["sessionId"].as_str().map(String::from);
        self.call("Page.enable", json!({}));
        self.size(1280, 900);
    }

    /// Sends a command and waits for its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let result = self.ask(method, params);
        result.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The result of a command, or the browser's error.
    fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(message.to_string().as_bytes()).unwrap();
        self.to.write_all(&[0]).unwrap();
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let answer = self.from.recv_timeout(left);
            let answer = answer.unwrap_or_else(|_| panic!("{method}: no answer"));
            if answer["id"] == json!(self.next) {
                return match &answer["error"] {
                    Value::Null => Ok(answer["result"].clone()),
                    error => Err(error.clone()),
                };
            }
        }
    }

    /// The value of a JavaScript expression.
    pub fn eval(&mut self, script: &str) -> Value {
        let value = self.value(script);
        value.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// The value of a JavaScript expression, or why the browser could not ask the page for it.
    fn value(&mut self, script: &str) -> Result<Value, Value> {
        let params = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
        let answer = self.ask("Runtime.evaluate", params)?;
        let failed = &answer["exceptionDetails"];
        assert!(failed.is_null(), "{script}: {failed}");
        Ok(answer["result"]["value"].clone())
    }

    /// Text that an expression gives.
    pub fn text(&mut self, script: &str) -> String {
        let value = self.eval(script);
        value
            .as_str()
            .unwrap_or_else(|| panic!("{script}: {value}"))
            .into()
    }

    /// A number that an expression gives.
    pub fn number(&mut self, script: &str) -> f64 {
        let value = self.eval(script);
        value
            .as_f64()
            .unwrap_or_else(|| panic!("{script}: {value}"))
    }

    /// Waits until an expression holds. A page that is being left cannot be asked.
    pub fn wait(&mut self, condition: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let value = self.value(condition);
            if value == Ok(json!(true)) {
                return;
            }
            assert!(Instant::now() < end, "never: {condition}: {value:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Opens an address and waits until it is there.
    pub fn open(&mut self, url: &str) {
        // The document that is left must not pass for the new one.
        self.eval("window.left = true");
        let answer = self.call("Page.navigate", json!({ "url": url }));
        let failed = &answer["errorText"];
        assert!(failed.is_null(), "{url}: {failed}");
        self.wait("document.readyState === 'complete' && !window.left");
    }

    /// The size of the window in pixels.
    pub fn size(&mut self, width: u32, height: u32) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 }),
        );
    }

    /// The reader's colour scheme: `light` or `dark`.
    pub fn scheme(&mut self, name: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": name });
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [feature] }),
        );
    }

    /// The middle of an element, which is scrolled into view.
    fn middle(&mut self, element: &str) -> Value {
        let middle = format!(
            "(() => {{ const e = {element}; e.scrollIntoView({{ block: 'center' }});
               const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        );
        self.eval(&middle)
    }

    /// Moves the mouse to the middle of an element.
    pub fn hover(&mut self, element: &str) {
        let at = self.middle(element);
        let event = json!({ "type": "mouseMoved", "x": at[0], "y": at[1] });
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Touches the middle of an element with a finger.
    pub fn tap(&mut self, element: &str) {
        self.call(
            "Emulation.setTouchEmulationEnabled",
            json!({ "enabled": true }),
        );
        let at = self.middle(element);
        let finger = json!([{ "x": at[0], "y": at[1] }]);
        for (kind, points) in [("touchStart", finger), ("touchEnd", json!([]))] {
            let event = json!({ "type": kind, "touchPoints": points });
            self.call("Input.dispatchTouchEvent", event);
        }
    }

    /// Presses and lets go of a key.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            other => panic!("{other} has no code here"),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if key == "Enter" && kind == "keyDown" {
                event["text"] = json!("\r");
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Clicks an element and gives the file that is downloaded, whole.
    pub fn download(&mut self, element: &str, name: &str) -> Vec<u8> {
        self.eval(&format!("({element}).click()"));
        let path = self.downloads.join(name);
        let end = Instant::now() + PATIENCE;
        // An empty file keeps the name for the whole one that then takes its place.
        loop {
            let file = std::fs::read(&path).unwrap_or_default();
            if !file.is_empty() {
                return file;
            }
            assert!(Instant::now() < end, "{name} never came");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A picture of the window, as a PNG file.
    pub fn screenshot(&mut self) -> Vec<u8> {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        decoded(answer["data"].as_str().unwrap())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes from base 64.
fn decoded(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|c| *c != b'=').map(value).collect();
    let mut out = Vec::new();
    for four in digits.chunks(4) {
        let bits = four
            .iter()
            .fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit));
        let bits = bits << (6 * (4 - four.len()));
        out.extend(&bits.to_be_bytes()[1..four.len()]);
    }
    out
}
