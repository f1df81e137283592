//! Words for a POSIX shell: in the scripts of a cluster, and in commands that people paste.

use std::path::Path;

/// A command line of these words.
pub fn command_line<W: AsRef<str>>(words: &[W]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
    quoted.join(" ")
}

/// A word as it is where a shell reads nothing into it, and else in single quotes.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A path for a person to paste.
pub fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        for (word, expected) in [
            ("--time=01:00:00", "--time=01:00:00"),
            ("a+b,c@d%e_f", "a+b,c@d%e_f"),
            ("my runs", "'my runs'"),
            ("it's", r"'it'\''s'"),
            ("$HOME/*", "'$HOME/*'"),
            ("~", "'~'"),
            ("a\nb", "'a\nb'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), expected);
        }
        assert_eq!(command_line(&["run", "my runs", ""]), "run 'my runs' ''");
        assert_eq!(path(Path::new("my runs")), "'my runs'");
    }

    /// What a shell makes of it is the word.
    #[cfg(unix)]
    #[test]
    fn a_shell_reads_what_was_written() {
        let words = [
            "it's", "a\nb", "$HOME/*", "~", "", "{a,b}", "#", "!!", "é", "--x=y",
        ];
        let script = format!("printf '%s\\0' {}", command_line(&words));
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output();
        let read = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(read.split_terminator('\0').collect::<Vec<_>>(), words);
    }
}
