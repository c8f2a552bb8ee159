//! `AGGIO_BLOB`: which new files become blob containers, and how.

use crate::pattern::{self, Pattern};

/// How SQLite calls the index of its log: a file that is nothing but shared memory of those who have it open.
const SHARED_MEMORY: &str = "-shm";

/// One rule of the list; the first that matches a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobRule {
    pattern: Pattern,
    /// Whether logs keep a checksum of the data, not of their own records alone.
    pub data_crc: bool,
}

/// Reads a list of rules; `false`, and nothing changes, if an option is unknown.
pub(super) fn set(rules: &mut Vec<BlobRule>, text: &str) -> bool {
    let read: Option<Vec<BlobRule>> =
        pattern::list_parts(text).into_iter().map(BlobRule::read).collect();
    read.map(|read| *rules = read).is_some()
}

impl BlobRule {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(':').map(str::trim);
        let mut rule = Self { pattern: Pattern::new(words.next()?), data_crc: true };
        for word in words {
            rule.data_crc = match word {
                "crc" => true,
                "nocrc" => false,
                _ => return None,
            };
        }
        Some(rule)
    }

    /// The rule for a new file `path`, relative to the working directory or absolute. There is none for memory that
    /// processes share by a file.
    pub fn of<'a>(rules: &'a [BlobRule], path: &str) -> Option<&'a BlobRule> {
        if rules.is_empty() || path.ends_with(SHARED_MEMORY) {
            return None;
        }
        let path = pattern::absolute(path, super::working_directory);
        rules.iter().find(|rule| rule.pattern.means(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Option<Vec<BlobRule>> {
        let mut rules = Vec::new();
        set(&mut rules, text).then_some(rules)
    }

    #[test]
    fn the_first_rule_that_matches_holds() {
        let rules = rules("*.nc:nocrc, /scratch/:crc ,*.nc").expect("good rules");
        assert_eq!(rules.len(), 3);
        let crc = |path| BlobRule::of(&rules, path).map(|rule| rule.data_crc);
        assert_eq!(crc("/home/a.nc"), Some(false));
        assert_eq!(crc("/scratch/x/y"), Some(true));
        assert_eq!(crc("/home/a.h5"), None);
        assert_eq!(crc("/scratch/x/data.db-wal"), Some(true));
        assert_eq!(crc("/scratch/x/data.db-shm"), None);
    }

    #[test]
    fn an_unknown_option_is_an_error() {
        assert_eq!(rules("*.nc:fast"), None);
        assert_eq!(rules("*.nc:e3sm"), None);
        assert_eq!(rules(""), Some(Vec::new()));
    }
}
