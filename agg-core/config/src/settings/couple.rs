//! `AGGIO_COUPLE`: which files programs exchange in memory, and how.

use aggio_base::pattern::{self, Pattern};
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

/// What becomes of a writer if generations that were not read fill the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Full {
    /// It waits before it begins another one.
    #[default]
    Wait,
    /// The oldest one that nobody has open is given up.
    Drop,
}

/// What becomes of a reader that waits for a generation whose writer died.
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

/// By what the agents of several nodes reach each other.
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
    /// So many newest generations are kept, whoever has read them; zero keeps each until it is
    /// read.
    pub keep: u32,
    /// What waiting readers learn when a writer dies.
    pub death: WriterDeath,
    /// Readers get what was synchronised before the file is closed.
    pub at_sync: bool,
    /// Readers get a netCDF file in a classic format when its header is complete, and its records
    /// as the header announces them.
    pub at_step: bool,
    /// Who asks for the number of records again before there are more sees the same number; if not,
    /// it waits for more.
    pub records_now: bool,
    /// Whether generations are stored under their name on disk.
    pub persist: Persist,
    /// Bytes of memory that all generations of all files may have, together with what is expected
    /// of another one that begins; zero for half of the computer's memory.
    pub budget: u64,
    /// What becomes of a writer if they are used up, and the directory is full.
    pub full: Full,
    /// The absolute name of the directory that has the generations for which there is no memory;
    /// with `survives`, all of them.
    pub spill: Option<Arc<str>>,
    /// Complete generations survive the agent.
    pub survives: bool,
}

/// One rule of the list; the first that names a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoupleRule {
    pattern: Pattern,
    /// How its files are exchanged.
    pub options: Options,
}

/// Reads a list of rules; `false`, and nothing changes, if an option or its value is unknown.
pub(super) fn set(rules: &mut Vec<CoupleRule>, text: &str) -> bool {
    let parts = pattern::list_parts(text);
    let read: Option<Vec<CoupleRule>> = parts.into_iter().map(CoupleRule::read).collect();
    read.map(|read| *rules = read).is_some()
}

impl CoupleRule {
    /// The rule for files that `pattern` names, with all options as they are by default.
    pub fn new(pattern: &str) -> Self {
        Self { pattern: Pattern::new(pattern), options: Options::default() }
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(':').map(str::trim);
        let mut rule = Self::new(words.next().filter(|pattern| !pattern.is_empty())?);
        for word in words {
            let (key, value) = word.split_once('=')?;
            let options = &mut rule.options;
            match (key.trim(), value.trim()) {
                ("gen", "next") => options.pick = Pick::Next,
                ("gen", "latest") => options.pick = Pick::Latest,
                ("ready", "close") => (options.at_sync, options.at_step) = (false, false),
                ("ready", "sync") => (options.at_sync, options.at_step) = (true, false),
                ("ready", "step") => (options.at_sync, options.at_step) = (false, true),
                ("numrecs", "wait") => options.records_now = false,
                ("numrecs", "now") => options.records_now = true,
                ("spill", path) => options.spill = Some(directory(path)?),
                ("level", "memory") => options.survives = false,
                ("level", "process") => options.survives = true,
                ("persist", "no") => options.persist = Persist::No,
                ("persist", "yes") => options.persist = Persist::Yes,
                ("persist", "after") => options.persist = Persist::After,
                ("budget", size) => options.budget = bytes(size).filter(|bytes| *bytes > 0)?,
                ("full", "wait") => options.full = Full::Wait,
                ("full", "drop") => options.full = Full::Drop,
                ("keep", "read") => options.keep = 0,
                ("keep", count) => options.keep = count.parse().ok().filter(|count| *count > 0)?,
                ("on_writer_death", "error") => options.death = WriterDeath::Error,
                ("on_writer_death", "wait") => options.death = WriterDeath::Wait,
                ("on_writer_death", "file") => options.death = WriterDeath::File,
                _ => return None,
            }
        }
        let Options { survives, spill, .. } = &rule.options;
        // What is to survive the agent needs a place outside of it.
        (!survives || spill.is_some()).then_some(rule)
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
        rules.iter().find(|rule| rule.pattern.means(&path))
    }
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
        set(&mut rules, text).then_some(rules)
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
    fn an_unknown_option_or_value_makes_all_rules_void() {
        let bad =
            ["a:gen", "a:gen=first", "a:fast=yes", "a:keep=0", "a:keep=-1", "a,b:", ":keep=1"];
        let places = ["a:spill=", "a:spill=x", "a:level=process", "a:level=disk:spill=/x"];
        let later = ["a:numrecs=3", "a:matchers=2", "a:block=1M"];
        let sizes = ["a:budget=0", "a:budget=1T", "a:budget=18446744073709551615K", "a:budget="];
        for text in [&bad[..], &places[..], &later[..], &sizes[..]].concat() {
            assert_eq!(rules(text), None, "{text}");
        }
    }
}
