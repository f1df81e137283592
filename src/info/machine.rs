//! System, processor and memory, from `/proc` where there is one.

use super::Lines;
use crate::train::cores;
use engine::kernels::Isa;
use indicatif::BinaryBytes;
use std::fs;

/// What this machine is.
#[derive(serde::Serialize)]
pub struct Machine {
    /// The name and version of the system, such as a distribution's.
    system: String,
    kernel: Option<String>,
    processor: Option<String>,
    /// Cores that this process may use.
    cores: usize,
    /// Of the processor that kernels are compiled for, best first.
    instruction_sets: Vec<String>,
    /// The one that trains.
    instruction_set: String,
    memory: Option<Memory>,
}

/// Bytes of memory.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
struct Memory {
    bytes: u64,
    available_bytes: u64,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        let read = |path: &str| fs::read_to_string(path).ok();
        Self {
            system: read("/etc/os-release")
                .and_then(|text| value(&text, "PRETTY_NAME", '='))
                .unwrap_or_else(|| std::env::consts::OS.into()),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().into()),
            processor: read("/proc/cpuinfo").and_then(|text| value(&text, "model name", ':')),
            cores: cores(),
            instruction_sets: Isa::available().iter().map(Isa::to_string).collect(),
            instruction_set: Isa::detect().to_string(),
            memory: read("/proc/meminfo").and_then(|text| Memory::parse(&text)),
        }
    }

    /// Adds its lines.
    pub fn write(&self, lines: &mut Lines) {
        let kernel = match &self.kernel {
            Some(kernel) => format!(", kernel {kernel}"),
            None => String::new(),
        };
        lines.add("system", format!("{}{kernel}", self.system));
        let unknown = || std::env::consts::ARCH.to_owned();
        let processor = self.processor.clone().unwrap_or_else(unknown);
        lines.add("processor", format!("{processor}, {} cores", self.cores));
        let sets = self.instruction_sets.join(", ");
        let chosen = &self.instruction_set;
        lines.add("instruction sets", format!("{sets}; {chosen} trains"));
        if let Some(memory) = &self.memory {
            let (all, free) = (memory.bytes, memory.available_bytes);
            let text = format!("{}, {} available", BinaryBytes(all), BinaryBytes(free));
            lines.add("memory", text);
        }
    }
}

impl Memory {
    /// From the text of `/proc/meminfo`, which counts in kibibytes.
    fn parse(text: &str) -> Option<Self> {
        let bytes = |name| -> Option<u64> {
            let value = value(text, name, ':')?;
            let number: u64 = value.strip_suffix(" kB")?.trim().parse().ok()?;
            Some(number << 10)
        };
        Some(Self {
            bytes: bytes("MemTotal")?,
            available_bytes: bytes("MemAvailable")?,
        })
    }
}

/// The value of the first line `name`, separator, value.
fn value(text: &str, name: &str, separator: char) -> Option<String> {
    let pairs = text.lines().filter_map(|line| line.split_once(separator));
    let (_, value) = pairs.into_iter().find(|(key, _)| key.trim() == name)?;
    Some(value.trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Memory, value};

    #[test]
    fn lines_of_proc_are_read() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Another\n";
        assert_eq!(value(text, "model name", ':').unwrap(), "Some CPU @ 2 GHz");
        assert_eq!(value(text, "bogomips", ':'), None);
        let text = "NAME=\"X\"\nPRETTY_NAME=\"X 12 (y)\"\n";
        assert_eq!(value(text, "PRETTY_NAME", '=').unwrap(), "X 12 (y)");
    }

    #[test]
    fn memory_is_counted_in_bytes() {
        let text = "MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\n";
        let expected = Memory {
            bytes: 2 << 20,
            available_bytes: 1 << 20,
        };
        assert_eq!(Memory::parse(text), Some(expected));
        assert_eq!(Memory::parse("MemTotal: many\n"), None);
    }
}
