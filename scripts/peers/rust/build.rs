//! Tells the contestants their frameworks' versions, from the lock file.

use std::fs;

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = fs::read_to_string("Cargo.lock").expect("the lock file is part of the sources");
    for (package, variable) in [("burn", "BURN_VERSION"), ("candle-core", "CANDLE_VERSION")] {
        let version = lock
            .split("[[package]]")
            .find(|entry| entry.contains(&format!("name = \"{package}\"")))
            .and_then(|entry| entry.split("version = \"").nth(1)?.split('"').next())
            .unwrap_or("unknown");
        println!("cargo::rustc-env={variable}={version}");
    }
}
