//! What serde says of a value, in the words of a study file.

use super::error::nearest;

/// serde's message as a sentence about keys and values, with the nearest right word where
/// one was misspelled.
pub(super) fn reworded(message: &str) -> String {
    let message = message.trim().replace('\n', " ");
    misspelled(&message)
        .or_else(|| mistyped(&message))
        .or_else(|| missing(&message))
        .unwrap_or(message)
}

/// "unknown field `a`, expected one of `b`, `c`", and the same of variants.
fn misspelled(message: &str) -> Option<String> {
    let (rest, what) = [("unknown field ", "key"), ("unknown variant ", "value")]
        .into_iter()
        .find_map(|(prefix, what)| Some((message.strip_prefix(prefix)?, what)))?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let given = quoted.next()?;
    let known: Vec<&str> = quoted.collect();
    if known.is_empty() {
        return Some(format!("unknown {what} `{given}`: no {what} belongs here"));
    }
    let nearest =
        nearest(given, &known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Some(format!(
        "unknown {what} `{given}`{nearest} (known here: {})",
        known.join(", ")
    ))
}

/// "invalid type: integer `3`, expected a string", and "invalid value" alike.
fn mistyped(message: &str) -> Option<String> {
    let rest = ["invalid type: ", "invalid value: "]
        .into_iter()
        .find_map(|prefix| message.strip_prefix(prefix))?;
    let (given, expected) = rest.rsplit_once(", expected ")?;
    let whole = |most: u64| format!("a whole number from 0 to {most}");
    let expected = match expected {
        "u32" => whole(u32::MAX.into()),
        // TOML's own integers end there.
        "u64" | "usize" => whole(i64::MAX as u64),
        "f32" | "f64" => "a number".into(),
        "a string" | "a path string" | "path string" => "text in quotes".into(),
        "a boolean" => "true or false".into(),
        "a sequence" => "a list in brackets".into(),
        other if other == "a map" || other.starts_with("struct ") => "a table of keys".into(),
        other => other.into(),
    };
    let given = match given.split_once(' ') {
        // serde calls a value by its type, and TOML shows it.
        Some(("integer" | "boolean" | "string", value)) => value.replace('`', ""),
        Some(("floating", value)) => value.trim_start_matches("point ").replace('`', ""),
        _ => match given {
            "sequence" => "a list".into(),
            "map" => "a table".into(),
            other => other.into(),
        },
    };
    Some(format!("this must be {expected}, not {given}"))
}

/// "missing field `a`", and "duplicate key" of one that stands twice.
fn missing(message: &str) -> Option<String> {
    if message == "duplicate key" {
        return Some("this key stands twice in its table; remove one".into());
    }
    let key = message.strip_prefix("missing field ")?;
    Some(format!("the key {key} is missing here"))
}

#[cfg(test)]
mod tests {
    use super::reworded;

    #[test]
    fn values_of_a_wrong_kind() {
        let cases = [
            (
                "invalid type: string \"a\", expected u32",
                "this must be a whole number from 0 to 4294967295, not \"a\"",
            ),
            (
                "invalid value: integer `-3`, expected u32",
                "this must be a whole number from 0 to 4294967295, not -3",
            ),
            (
                "invalid type: integer `128`, expected a sequence",
                "this must be a list in brackets, not 128",
            ),
            (
                "invalid type: floating point `1.5`, expected usize",
                "this must be a whole number from 0 to 9223372036854775807, not 1.5",
            ),
            (
                "invalid type: sequence, expected struct TaskTable",
                "this must be a table of keys, not a list",
            ),
            (
                "invalid type: map, expected a string",
                "this must be text in quotes, not a table",
            ),
            ("missing field `widths`", "the key `widths` is missing here"),
            (
                "duplicate key",
                "this key stands twice in its table; remove one",
            ),
            (
                "width must be a whole number of at least 1, not 0",
                "width must be a whole number of at least 1, not 0",
            ),
        ];
        for (serde, ours) in cases {
            assert_eq!(reworded(serde), ours);
        }
    }
}
