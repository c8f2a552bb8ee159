//! Hints that do not come from the application: files and environment variables.

use super::resolve::complain_unknown;
use super::{Declaration, Hints, Origin, tuning};
use crate::settings::{process_variable, working_directory};
use aggio_base::diagnostics::Diagnostics;
use aggio_base::pattern::{self, Pattern};
use std::io;

/// Where ROMIO looks for hints if `ROMIO_HINTS` is not set.
const SYSTEM_FILE: &str = "/etc/romio-hints";
/// Bytes of a hints file that are read; more is no hints file.
const FILE_MAX: usize = 1 << 20;

/// One `key=value` from anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key as written.
    pub key: String,
    /// The value as written.
    pub value: String,
    /// Where it stood; also its rank among other origins.
    pub origin: Origin,
}

/// Entries for the files that a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The variable, or the file, that it stands in.
    pub variable: &'static str,
    /// The files that the rule applies to.
    pub pattern: Pattern,
    /// The hints for these files.
    pub entries: Vec<Entry>,
}

/// All hints that do not come from the application, read once per process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    rules: Vec<Rule>,
}

impl Sources {
    /// Reads `ROMIO_HINTS` (or `/etc/romio-hints`), `MPICH_MPIIO_HINTS` and `AGGIO_HINTS`.
    ///
    /// `variable` looks up an environment variable, `file` reads a whole file. Entries with an
    /// unknown key or a bad value go to `complaints` and are dropped.
    pub fn read(
        variable: &dyn Fn(&str) -> Option<String>,
        file: &dyn Fn(&str) -> io::Result<Vec<u8>>,
        complaints: &mut Diagnostics,
    ) -> Self {
        let mut rules = vec![read_file(variable, file, complaints)];
        rules.extend(deferring(&variable("AGGIO_DEFER").unwrap_or_default()));
        for origin in [Origin::MpichHints, Origin::AggioHints] {
            let text = variable(origin.name()).unwrap_or_default();
            rules.extend(parse_patterns(&text, origin, complaints));
        }
        for rule in &mut rules {
            rule.entries.retain_mut(|entry| is_good(entry, complaints));
        }
        rules.retain(|rule| !rule.entries.is_empty());
        Self { rules }
    }

    /// The patterns that no file has matched, each with the variable that it stands in.
    pub fn unused(&self) -> impl Iterator<Item = (&'static str, &Pattern)> {
        let unused = self.rules.iter().filter(|rule| !rule.pattern.was_used());
        unused.map(|rule| (rule.variable, &rule.pattern))
    }

    /// Reads the environment and the files of this process.
    pub fn of_process(complaints: &mut Diagnostics) -> Self {
        Self::read(&process_variable, &|name| std::fs::read(name), complaints)
    }

    /// The hints for the file `path`, weakest first. `path` has no driver prefix; a relative one is
    /// taken from the working directory.
    pub fn entries_for(&self, path: &str) -> impl Iterator<Item = &Entry> {
        let path = if self.rules.is_empty() {
            String::new()
        } else {
            pattern::absolute(path, working_directory)
        };
        let rules = self.rules.iter().filter(move |rule| rule.pattern.matches(&path));
        rules.flat_map(|rule| &rule.entries)
    }
}

/// The rules of `AGGIO_DEFER`: a hint for each of its patterns.
fn deferring(patterns: &str) -> impl Iterator<Item = Rule> {
    Pattern::list(patterns).into_iter().map(|pattern| {
        let (key, value) = ("aggio_defer".into(), "enable".into());
        let origin = Origin::AggioDefer;
        Rule { variable: origin.name(), pattern, entries: vec![Entry { key, value, origin }] }
    })
}

/// Whether an entry would change a hint; if not, says why. Of `aggio_tune` the good settings stay.
fn is_good(entry: &mut Entry, complaints: &mut Diagnostics) -> bool {
    if entry.key == tuning::HINT {
        entry.value = tuning::checked(&entry.value, entry.origin, complaints);
        return !entry.value.is_empty();
    }
    let Some((_, declaration)) = Declaration::settable(&entry.key) else {
        complain_unknown(&entry.key, entry.origin, complaints);
        return false;
    };
    let good = (declaration.set)(&mut Hints::default(), entry.value.trim());
    if !good {
        declaration.complain((&entry.key, &entry.value), entry.origin, complaints);
    }
    good
}

/// The rule that a hints file makes for all files; empty if there is none.
fn read_file(
    variable: &dyn Fn(&str) -> Option<String>,
    file: &dyn Fn(&str) -> io::Result<Vec<u8>>,
    complaints: &mut Diagnostics,
) -> Rule {
    let named = variable("ROMIO_HINTS").filter(|name| !name.is_empty());
    let origin = if named.is_some() { Origin::HintsFile } else { Origin::SystemFile };
    let name = named.unwrap_or_else(|| SYSTEM_FILE.into());
    let entries = match file(&name) {
        Ok(bytes) if bytes.len() <= FILE_MAX => {
            parse_lines(&String::from_utf8_lossy(&bytes), origin, complaints)
        }
        Ok(bytes) => {
            complaints.text(origin.name(), format!("{name}: {} bytes, no hints file", bytes.len()));
            Vec::new()
        }
        Err(cause) => {
            if origin == Origin::HintsFile {
                complaints.text(origin.name(), format!("{name}: {cause}"));
            }
            Vec::new()
        }
    };
    Rule { variable: origin.name(), pattern: Pattern::new("*"), entries }
}

/// The entries of a hints file in ROMIO's form: `key value` a line, `#` first for comments. Of
/// several lines with one key the first holds, as in ROMIO.
fn parse_lines(text: &str, origin: Origin, complaints: &mut Diagnostics) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        match line.trim().split_once(char::is_whitespace) {
            Some((key, _)) if entries.iter().any(|entry| entry.key == key) => {}
            Some((key, value)) => {
                entries.push(Entry { key: key.into(), value: value.trim().into(), origin });
            }
            None => complaints.text(origin.name(), format!("{line:?}: not of the form: key value")),
        }
    }
    entries
}

/// The rules in Cray's form, `PATTERN:key=value[:key=value],...`; also, more than Cray has:
///
/// * `;` for `:`; `key?=value` for "only if the application says nothing";
/// * no pattern: the one before it, at first all files;
/// * a piece that cannot be a pattern or a key belongs to the value before it, so that
///   `cb_config_list=*:2,node7:4` needs no quotes; `"..."`, `'...'` and `#...#` quote a value,
///   a backslash a character.
fn parse_patterns(text: &str, origin: Origin, complaints: &mut Diagnostics) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for piece in pieces(text) {
        let pair = split_pair(piece.text, origin);
        let begins_rule = piece.separator == ',' || rules.is_empty();
        match pair {
            Some(entry) if begins_rule && rules.is_empty() => {
                let pattern = Pattern::new("*");
                rules.push(Rule { variable: origin.name(), pattern, entries: vec![entry] });
            }
            Some(entry) => rules.last_mut().into_iter().for_each(|r| r.entries.push(entry.clone())),
            None if begins_rule && (piece.leads_to_key || rules.is_empty()) => {
                let pattern = Pattern::new(piece.text.trim());
                rules.push(Rule { variable: origin.name(), pattern, entries: Vec::new() });
            }
            None => match rules.last_mut().and_then(|rule| rule.entries.last_mut()) {
                Some(entry) => {
                    entry.value.push(piece.separator);
                    entry.value.push_str(&unquote(piece.text));
                }
                None => complaints.text(origin.name(), format!("{:?}: no key=value", piece.text)),
            },
        }
    }
    for rule in rules.iter().filter(|rule| rule.entries.is_empty()) {
        let words = format!("{:?}: a pattern without hints", rule.pattern.text());
        complaints.text(origin.name(), words);
    }
    rules
}

/// A part of a list of rules between two separators.
struct Piece<'a> {
    text: &'a str,
    /// The separator before it; `,` before the first.
    separator: char,
    /// Whether the next piece follows after `:` or `;` and is a `key=value`.
    leads_to_key: bool,
}

/// Cuts the text at every `,`, `:` and `;` outside of quotes; empty pieces are left out.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found: Vec<Piece<'_>> = Vec::new();
    let (mut start, mut separator) = (0, ',');
    for (end, next) in separators(text).into_iter().chain([(text.len(), ',')]) {
        let part = &text[start..end];
        if !part.trim().is_empty() {
            let is_key = separator != ',' && split_pair(part, Origin::Default).is_some();
            if let Some(before) = found.last_mut() {
                before.leads_to_key = is_key;
            }
            found.push(Piece { text: part, separator, leads_to_key: false });
        }
        (start, separator) = ((end + 1).min(text.len()), next);
    }
    found
}

/// The separators outside of quotes, with their positions.
fn separators(text: &str) -> Vec<(usize, char)> {
    let (mut found, mut quote, mut before, mut escaped) = (Vec::new(), None, ' ', false);
    for (i, c) in text.char_indices() {
        let closes = |quote: char| text[i + c.len_utf8()..].contains(quote);
        match (quote, c) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '#') if before == '=' && closes(c) => quote = Some(c),
            (None, ',' | ':' | ';') => found.push((i, c)),
            _ => {}
        }
        before = c;
    }
    found
}

/// The entry that a piece spells; `None` if it is not of the form `key=value` or `key?=value`.
fn split_pair(piece: &str, origin: Origin) -> Option<Entry> {
    let (key, value) = piece.split_once('=')?;
    let key = key.trim();
    let (key, origin) = match key.strip_suffix('?') {
        Some(key) => (key, Origin::Suggestion),
        None => (key, origin),
    };
    let is_name = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then(|| Entry { key: key.into(), value: unquote(value), origin })
}

/// A value without its quotes and backslashes.
fn unquote(value: &str) -> String {
    let value = value.trim();
    let inner = ['"', '\'', '#']
        .iter()
        .find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(value);
    let (mut text, mut escaped) = (String::new(), false);
    for c in inner.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            text.push(c);
            escaped = false;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rules as text: `pattern-matches-all? key=value(origin) ...` for the file `/d/out.nc`.
    fn entries(text: &str, path: &str) -> Vec<String> {
        let mut complaints = Diagnostics::default();
        let rules = parse_patterns(text, Origin::AggioHints, &mut complaints);
        let sources = Sources { rules };
        let show = |entry: &Entry| {
            let sign = if entry.origin == Origin::Suggestion { "?=" } else { "=" };
            format!("{}{sign}{}", entry.key, entry.value)
        };
        let shown = sources.entries_for(path).map(show).collect();
        assert_eq!(complaints, Diagnostics::default(), "{text}");
        shown
    }

    #[test]
    fn hints_hold_for_the_files_that_their_pattern_matches() {
        let text = "*.nc:cb_nodes=4:romio_cb_write=enable,/scratch/**:cb_nodes=8";
        assert_eq!(entries(text, "/d/out.nc"), ["cb_nodes=4", "romio_cb_write=enable"]);
        assert_eq!(entries(text, "/scratch/a/x.h5"), ["cb_nodes=8"]);
        assert_eq!(entries(text, "/d/out.h5"), [""; 0]);
    }

    #[test]
    fn without_a_pattern_hints_hold_for_all_files_or_like_those_before() {
        assert_eq!(entries("cb_nodes=4:ind_rd_buffer_size=1M", "/x").len(), 2);
        assert_eq!(entries("cb_nodes=4,ind_rd_buffer_size=1M", "/x").len(), 2);
        assert_eq!(entries("*.nc:cb_nodes=4,cb_buffer_size=1M", "/x"), [""; 0]);
        assert_eq!(entries("*.nc:cb_nodes=4,cb_buffer_size=1M", "/x.nc").len(), 2);
    }

    #[test]
    fn a_semicolon_is_a_colon_and_a_question_mark_suggests() {
        assert_eq!(entries("*;cb_nodes?=4;a=1", "/x"), ["cb_nodes?=4", "a=1"]);
    }

    #[test]
    fn a_value_may_hold_separators_with_and_without_quotes() {
        for text in [
            "*:cb_config_list=*:2,node7:4:cb_nodes=3",
            "*:cb_config_list=#*:2,node7:4#:cb_nodes=3",
            "*:cb_config_list=\"*:2,node7:4\":cb_nodes=3",
            "*:cb_config_list='*:2,node7:4':cb_nodes=3",
            "*:cb_config_list=*\\:2\\,node7\\:4:cb_nodes=3",
        ] {
            assert_eq!(entries(text, "/x"), ["cb_config_list=*:2,node7:4", "cb_nodes=3"], "{text}");
        }
    }

    #[test]
    fn a_pattern_may_hold_an_equals_sign_and_an_escaped_colon() {
        assert_eq!(entries("/a=b/*:k=1", "/a=b/x"), ["k=1"]);
        assert_eq!(entries("a\\:b:k=1", "/a:b"), ["k=1"]);
    }

    #[test]
    fn a_pattern_without_hints_is_reported() {
        let mut complaints = Diagnostics::default();
        parse_patterns("*.nc", Origin::AggioHints, &mut complaints);
        let told: Vec<_> = complaints.0.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["AGGIO_HINTS: \"*.nc\": a pattern without hints"]);
    }

    fn read(variables: &[(&str, &str)], file: &str) -> (Sources, Diagnostics) {
        let variable = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_string())
        };
        let mut complaints = Diagnostics::default();
        let read = |name: &str| match name {
            SYSTEM_FILE | "/my/hints" => Ok(file.as_bytes().to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        (Sources::read(&variable, &read, &mut complaints), complaints)
    }

    #[test]
    fn a_hints_file_has_a_key_and_a_value_on_each_line() {
        let (sources, complaints) =
            read(&[], "# site\ncb_nodes 4\n\nromio_cb_read\t disable \nx\ncb_nodes 5\n");
        let found: Vec<_> = sources.entries_for("/f").map(|e| (&*e.key, &*e.value)).collect();
        assert_eq!(found, [("cb_nodes", "4"), ("romio_cb_read", "disable")]);
        assert_eq!(complaints.0.len(), 1);
        assert!(complaints.0[0].message.contains("\"x\""));
    }

    #[test]
    fn a_named_hints_file_replaces_that_of_the_system_and_must_exist() {
        let (sources, _) = read(&[("ROMIO_HINTS", "/my/hints")], "cb_nodes 4");
        assert_eq!(sources.rules[0].entries[0].origin, Origin::HintsFile);
        let (sources, complaints) = read(&[("ROMIO_HINTS", "/no/such")], "cb_nodes 4");
        assert_eq!(sources, Sources::default());
        assert!(complaints.0[0].to_string().starts_with("ROMIO_HINTS: /no/such: "));
    }

    #[test]
    fn unknown_and_bad_hints_of_the_environment_are_reported_and_dropped() {
        let text = "*:romio_cb_wirte=enable:cb_nodes=many:striping_unit=64K";
        let (sources, complaints) = read(&[("AGGIO_HINTS", text)], "");
        assert_eq!(sources.entries_for("/f").count(), 1);
        let told: Vec<_> = complaints.0.iter().map(ToString::to_string).collect();
        assert!(told[0].ends_with("did you mean romio_cb_write?"), "{told:?}");
        assert!(told[1].contains("cb_nodes=\"many\"") && told[1].contains("whole number"));
        assert_eq!(told.len(), 2);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(
            text in ".*",
            list in "[*a-c:;,=?#\"'\\\\ ]{0,40}",
            file in ".*",
        ) {
            read(&[("AGGIO_HINTS", &text), ("MPICH_MPIIO_HINTS", &list)], &file);
            read(&[("AGGIO_HINTS", &list), ("MPICH_MPIIO_HINTS", &text)], &list);
        }

        #[test]
        fn every_quoted_value_comes_back_whole(value in "[a-z:;,=*]{1,20}") {
            let shown = entries(&format!("*:k=\"{value}\":z=1"), "/x");
            prop_assert_eq!(shown, [format!("k={value}"), "z=1".into()]);
        }
    }
}
