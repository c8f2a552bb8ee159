//! Pattern files: named patterns, one on a line.

use crate::pattern::Pattern;

/// One line of a pattern file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Names the pattern in tables and on command lines.
    pub name: String,
    /// The pattern.
    pub pattern: Pattern,
}

/// Reads a pattern file: lines of `NAME PATTERN`; text after a `#` is a remark.
///
/// # Errors
///
/// Names the first line that is wrong.
pub fn parse_set(text: &str) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        let at_line = |why: String| format!("line {}: {why}", index + 1);
        match words[..] {
            [] => {}
            [name, pattern] => {
                if entries.iter().any(|entry| entry.name == name) {
                    return Err(at_line(format!("{name} is there already")));
                }
                let pattern = pattern.parse().map_err(at_line)?;
                entries.push(Entry { name: name.to_owned(), pattern });
            }
            _ => return Err(at_line("want NAME PATTERN".into())),
        }
    }
    Ok(entries)
}

/// A pattern file that comes with the program: `benchmark`, `slow` (for slow file systems), `quick`
/// (small sizes) or `simulation` (one large call for many ranks).
pub fn standard_set(name: &str) -> Option<&'static str> {
    match name {
        "benchmark" => Some(include_str!("../sets/benchmark.patterns")),
        "slow" => Some(include_str!("../sets/slow.patterns")),
        "quick" => Some(include_str!("../sets/quick.patterns")),
        "simulation" => Some(include_str!("../sets/simulation.patterns")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_sets_have_the_same_names() {
        let names = |set: &str| -> Vec<String> {
            let entries = parse_set(standard_set(set).unwrap()).unwrap();
            entries.into_iter().map(|entry| entry.name).collect()
        };
        assert_eq!(names("benchmark"), names("slow"));
        assert_eq!(names("benchmark"), names("quick"));
        assert_eq!(standard_set("none"), None);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, reason) in [
            ("a contiguous,bytes=1\n\n# remark\nb", "line 4: want"),
            ("a contiguous,bytes=1 # one\na contiguous,bytes=1", "line 2: a is there"),
            ("a contiguous", "line 1: bytes="),
        ] {
            let why = parse_set(text).unwrap_err();
            assert!(why.contains(reason), "{why}");
        }
    }
}
