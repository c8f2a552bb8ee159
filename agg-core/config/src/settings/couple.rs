//! `AGGIO_COUPLE`: the files that programs exchange in memory, and their options.

use aggio_base::pattern::{self, Pattern};
use aggio_base::spelling;
use std::sync::Arc;

/// Which generation of a file an open for reading means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// The one after the last that this program read: the n-th open gets the n-th.
    #[default]
    Next,
    /// The newest complete one.
    Latest,
}

/// Whether generations are stored under their name on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persist {
    /// Never.
    #[default]
    No,
    /// When they are complete.
    Yes,
    /// When the last reader is done with them.
    After,
}

/// How a writer goes on if generations that were not read fill the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Full {
    /// It waits before it begins another one.
    #[default]
    Wait,
    /// The oldest one that is not open is given up.
    Drop,
}

/// How a reader that waits for a generation goes on if the writer dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriterDeath {
    /// Its open fails with `EIO`.
    #[default]
    Error,
    /// It waits for the generation that a restarted writer makes.
    Wait,
    /// It gets the file on disk.
    File,
}

/// The transport between the agents of several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CoupleLink {
    /// Plain TCP.
    #[default]
    Tcp,
    /// UCX, which has to be installed.
    Ucx,
}

impl CoupleLink {
    /// The variable that names it.
    pub const VARIABLE: &str = "AGGIO_COUPLE_LINK";

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Tcp, Self::Ucx].into_iter().find(|link| link.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Ucx => "ucx",
        }
    }
}

/// How files of a rule are exchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "they are the switches of a rule")]
pub struct Options {
    /// Which generation a reader gets.
    pub pick: Pick,
    /// Number of newest generations that are kept, whether they have been read or not; zero keeps
    /// each until it is read.
    pub keep: u32,
    /// How waiting readers go on when a writer dies.
    pub death: WriterDeath,
    /// Readers get synchronised bytes before the file is closed.
    pub at_sync: bool,
    /// Readers get a netCDF file in a classic format when its header is complete, and its records
    /// as the header announces them.
    pub at_step: bool,
    /// A reader that asks for the number of records again before there are more gets the same
    /// number; if not set, it waits for more.
    pub records_now: bool,
    /// Whether generations are stored under their name on disk.
    pub persist: Persist,
    /// Bytes of memory that all generations of all files may have, including the expected size of
    /// another one that begins; zero for half of the computer's memory.
    pub budget: u64,
    /// How a writer goes on if they are used up, and the directory is full.
    pub full: Full,
    /// The absolute name of the directory that has the generations for which there is no memory;
    /// with `survives`, all of them.
    pub spill: Option<Arc<str>>,
    /// Complete generations survive the agent.
    pub survives: bool,
}

/// The keys of a rule, and the values that each accepts.
const KEYS: &[(&str, &str)] = &[
    ("gen", "next or latest"),
    ("ready", "close, sync or step"),
    ("numrecs", "wait or now"),
    ("keep", "read or a number from 1 on"),
    ("persist", "no, yes or after"),
    ("budget", "a size from 1 on, with K, M or G for powers of 1024"),
    ("spill", "the absolute name of a directory"),
    ("level", "memory or process"),
    ("full", "wait or drop"),
    ("on_writer_death", "error, wait or file"),
];

/// One rule of the list; the first that names a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoupleRule {
    pattern: Pattern,
    /// How its files are exchanged.
    pub options: Options,
    /// Something in it is wrong: its files are not coupled, by later rules either.
    is_void: bool,
}

/// Parses a list of rules. A rule with an error is void; returns the errors.
pub(super) fn set(rules: &mut Vec<CoupleRule>, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    rules.clear();
    for text in pattern::list_parts(text) {
        rules.push(CoupleRule::read(text).unwrap_or_else(|fault| {
            let what = format!("AGGIO_COUPLE: the rule {text:?} is void: {fault}");
            faults.push(format!("{what}; the files that it names are not coupled"));
            CoupleRule { is_void: true, ..CoupleRule::new(pattern_of(text)) }
        }));
    }
    faults
}

/// The text before the first key.
fn pattern_of(text: &str) -> &str {
    text.split_once(':').map_or(text, |(pattern, _)| pattern).trim()
}

impl CoupleRule {
    /// The rule for files that `pattern` names, with all options as they are by default.
    pub fn new(pattern: &str) -> Self {
        let pattern = Pattern::new(pattern);
        Self { pattern, options: Options::default(), is_void: false }
    }

    /// Parses a rule; returns a description of the error if there is one.
    fn read(text: &str) -> Result<Self, String> {
        let pattern = pattern_of(text);
        if pattern.is_empty() {
            return Err("it has no pattern".into());
        }
        let mut rule = Self::new(pattern);
        for word in text.split(':').skip(1).map(str::trim) {
            let Some((key, value)) = word.split_once('=') else {
                return Err(format!("{word:?} is not of the form key=value"));
            };
            let (key, value) = (key.trim(), value.trim());
            let Some((_, accepted)) = KEYS.iter().find(|(known, _)| *known == key) else {
                return Err(unknown(key));
            };
            if rule.options.set(key, value).is_none() {
                return Err(format!("{key}={value:?} is not accepted, but {accepted}"));
            }
        }
        if rule.options.survives && rule.options.spill.is_none() {
            // Generations that survive the agent need a place outside of it.
            return Err("level=process needs a directory: spill=DIRECTORY".into());
        }
        Ok(rule)
    }

    /// Which files it means.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Whether a name that no program has made a generation of may be that of a file on disk: one
    /// that readers get if the writer dies, or one that an agent which has ended has stored.
    pub fn uses_disk(&self) -> bool {
        self.options.death == WriterDeath::File || self.options.persist != Persist::No
    }

    /// The rule for a file `path`, relative to the working directory or absolute.
    pub fn of<'a>(rules: &'a [CoupleRule], path: &str) -> Option<&'a CoupleRule> {
        if rules.is_empty() {
            return None;
        }
        let path = pattern::absolute(path, super::working_directory);
        rules.iter().find(|rule| rule.pattern.means(&path)).filter(|rule| !rule.is_void)
    }
}

impl Options {
    /// Gives a key of a rule a value; `None` if it does not accept that.
    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match (key, value) {
            ("gen", "next") => self.pick = Pick::Next,
            ("gen", "latest") => self.pick = Pick::Latest,
            ("ready", "close") => (self.at_sync, self.at_step) = (false, false),
            ("ready", "sync") => (self.at_sync, self.at_step) = (true, false),
            ("ready", "step") => (self.at_sync, self.at_step) = (false, true),
            ("numrecs", "wait") => self.records_now = false,
            ("numrecs", "now") => self.records_now = true,
            ("spill", path) => self.spill = Some(directory(path)?),
            ("level", "memory") => self.survives = false,
            ("level", "process") => self.survives = true,
            ("persist", "no") => self.persist = Persist::No,
            ("persist", "yes") => self.persist = Persist::Yes,
            ("persist", "after") => self.persist = Persist::After,
            ("budget", size) => self.budget = bytes(size).filter(|bytes| *bytes > 0)?,
            ("full", "wait") => self.full = Full::Wait,
            ("full", "drop") => self.full = Full::Drop,
            ("keep", "read") => self.keep = 0,
            ("keep", count) => self.keep = count.parse().ok().filter(|count| *count > 0)?,
            ("on_writer_death", "error") => self.death = WriterDeath::Error,
            ("on_writer_death", "wait") => self.death = WriterDeath::Wait,
            ("on_writer_death", "file") => self.death = WriterDeath::File,
            _ => return None,
        }
        Some(())
    }
}

/// The error message for an unknown key.
fn unknown(key: &str) -> String {
    let nearest = spelling::nearest(key, KEYS.iter().map(|(known, _)| *known));
    let meant = nearest.map(|nearest| format!("; did you mean {nearest}?"));
    format!("it has the unknown key {key:?}{}", meant.unwrap_or_default())
}

/// An absolute name of a directory.
fn directory(path: &str) -> Option<Arc<str>> {
    path.starts_with('/').then(|| path.into())
}

/// A number of bytes, with K, M or G for powers of 1024.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'K' | 'k') => (&text[..at], 1 << 10),
        (at, 'M' | 'm') => (&text[..at], 1 << 20),
        (at, 'G' | 'g') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Option<Vec<CoupleRule>> {
        let mut rules = Vec::new();
        set(&mut rules, text).is_empty().then_some(rules)
    }

    #[test]
    fn the_first_rule_that_names_the_file_holds() {
        let rules = rules("/run1/ck.*.nc:gen=latest, ck.*.nc:keep=3,*.h5").expect("good rules");
        let of =
            |path| CoupleRule::of(&rules, path).map(|rule| (rule.options.pick, rule.options.keep));
        assert_eq!(of("/run1/ck.1.nc"), Some((Pick::Latest, 0)));
        assert_eq!(of("/home/ck.1.nc"), Some((Pick::Next, 3)));
        assert_eq!(of("/home/a.h5"), Some((Pick::Next, 0)));
        assert_eq!(of("/home/a.nc"), None);
        assert_eq!(of("/etc/a.h5"), None, "files of the system are meant by no such pattern");
    }

    #[test]
    fn options_are_read_and_their_defaults_may_be_written() {
        let all = rules("a:gen=next:ready=close:keep=read:persist=no:on_writer_death=error");
        assert_eq!(all, rules("a"));
        let one = |text| {
            rules(text).map(|rules| {
                let options = &rules[0].options;
                (options.persist, options.budget, options.full)
            })
        };
        assert_eq!(one("a:full=wait"), Some((Persist::No, 0, Full::Wait)));
        assert_eq!(one("a:persist=yes:budget=2G"), Some((Persist::Yes, 2 << 30, Full::Wait)));
        assert_eq!(one("a:persist=after:full=drop"), Some((Persist::After, 0, Full::Drop)));
        assert!(rules("a:ready=sync").is_some_and(|rules| rules[0].options.at_sync));
        let step = |text| {
            rules(text).map(|rules| (rules[0].options.at_step, rules[0].options.records_now))
        };
        assert_eq!(step("a:ready=step"), Some((true, false)));
        assert_eq!(step("a:ready=step:numrecs=now"), Some((true, true)));
        let death = |text| rules(text).map(|rules| rules[0].options.death);
        let on_disk = |text| rules(text).map(|rules| rules[0].uses_disk());
        assert_eq!(on_disk("a"), Some(false));
        for text in ["a:on_writer_death=file", "a:persist=yes", "a:persist=after"] {
            assert_eq!(on_disk(text), Some(true), "{text}");
        }
        let spill = |text| rules(text).and_then(|rules| rules[0].options.spill.clone());
        assert_eq!(spill("a:level=memory"), None);
        assert_eq!(spill("a:spill=/x/y"), Some("/x/y".into()));
        let survives = |text| rules(text).map(|rules| rules[0].options.survives);
        assert_eq!(survives("a:spill=/x"), Some(false));
        assert_eq!(survives("a:level=process:spill=/x"), Some(true));
        assert_eq!(death("a:on_writer_death=wait"), Some(WriterDeath::Wait));
        assert_eq!(death("a:on_writer_death=file"), Some(WriterDeath::File));
    }

    #[test]
    fn a_rule_with_an_unknown_option_or_value_is_void() {
        let bad =
            ["a:gen", "a:gen=first", "a:fast=yes", "a:keep=0", "a:keep=-1", "a,b:", ":keep=1"];
        let places = ["a:spill=", "a:spill=x", "a:level=process", "a:level=disk:spill=/x"];
        let later = ["a:numrecs=3", "a:matchers=2", "a:block=1M"];
        let sizes = ["a:budget=0", "a:budget=1T", "a:budget=18446744073709551615K", "a:budget="];
        for text in [&bad[..], &places[..], &later[..], &sizes[..]].concat() {
            let mut rules = Vec::new();
            assert_eq!(set(&mut rules, text).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_void_rule_leaves_the_others_and_takes_its_files_out_of_them() {
        let mut rules = Vec::new();
        let faults = set(&mut rules, "a.nc:keep=2,b.nc:kep=3:gen=latest,*.nc,*.h5:keep=few");
        let of = |path| CoupleRule::of(&rules, path).map(|rule| rule.options.keep);
        assert_eq!([of("/d/a.nc"), of("/d/b.nc"), of("/d/c.nc")], [Some(2), None, Some(0)]);
        assert_eq!(of("/d/x.h5"), None);
        assert!(faults[0].contains("\"b.nc:kep=3:gen=latest\"") && faults[0].contains("\"kep\""));
        assert!(faults[0].contains("did you mean keep?"), "{faults:?}");
        assert!(faults[1].contains("keep=\"few\" is not accepted"), "{faults:?}");
        assert_eq!(faults.len(), 2);
    }

    #[test]
    fn each_key_of_the_table_has_a_value_that_is_taken_and_none_is_missing() {
        for (key, accepted) in KEYS {
            let first = accepted.split([' ', ',']).next().unwrap();
            let value = match *key {
                "budget" => "1G",
                "spill" => "/d",
                _ => first,
            };
            assert!(Options::default().set(key, value).is_some(), "{key}={value}");
        }
    }
}
