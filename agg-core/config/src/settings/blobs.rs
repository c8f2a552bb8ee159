//! `AGGIO_BLOB`: the new files that become blob containers, and their options.

use crate::rules::Mode;
use aggio_base::pattern::{self, Pattern};

/// SQLite's suffix for the index of its log: a file that is only shared memory of the processes
/// that have it open.
const SHARED_MEMORY: &str = "-shm";

/// The form in which a file is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Layout {
    /// A container.
    #[default]
    Container = 0,
    /// Blobs of E3SM-IO in PnetCDF's layout.
    E3sm = 1,
    /// Blobs of E3SM-IO in HDF5 files.
    E3smHdf5 = 2,
}

impl Layout {
    /// The layout of this number.
    pub fn from_number(number: u64) -> Self {
        match number {
            1 => Layout::E3sm,
            2 => Layout::E3smHdf5,
            _ => Layout::Container,
        }
    }

    /// The command that makes it of the container `path` later, or a file if it is none.
    pub fn command(self, path: &str) -> String {
        let option = match self {
            Layout::Container => "",
            Layout::E3sm => " --to e3sm",
            Layout::E3smHdf5 => " --to hdf5-blob",
        };
        format!("aggio merge{option} {path} NEW_NAME")
    }
}

/// One rule of the list; the first that matches a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobRule {
    pattern: Pattern,
    /// Whether logs keep a checksum of the data, not of their own records alone.
    pub data_crc: bool,
    /// The form that the container gets when it is closed.
    pub layout: Layout,
    /// The number of files that it becomes; zero for one of each node.
    pub files: u32,
    /// When writes of programs without MPI reach their log.
    pub mode: Mode,
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
        let pattern = Pattern::new(words.next()?);
        let (layout, mode) = (Layout::Container, Mode::Posix);
        let mut rule = Self { pattern, data_crc: true, layout, files: 0, mode };
        for word in words {
            match (word, word.strip_prefix("blobs=")) {
                ("crc", _) => rule.data_crc = true,
                ("nocrc", _) => rule.data_crc = false,
                ("causal", _) => rule.mode = Mode::Causal,
                ("close", _) => rule.mode = Mode::Close,
                ("e3sm", _) => rule.layout = Layout::E3sm,
                ("e3sm-h5", _) => rule.layout = Layout::E3smHdf5,
                (_, Some(number)) => rule.files = number.parse().ok().filter(|files| *files > 0)?,
                _ => return None,
            }
        }
        (rule.files == 0 || rule.layout != Layout::Container).then_some(rule)
    }

    /// Which files it means.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The rule for a file `path`, relative to the working directory or absolute. There is none for
    /// memory that processes share by a file.
    pub fn of<'a>(rules: &'a [BlobRule], path: &str) -> Option<&'a BlobRule> {
        if rules.is_empty() || path.ends_with(SHARED_MEMORY) {
            return None;
        }
        let path = pattern::absolute(path, super::working_directory);
        rules.iter().find(|rule| rule.pattern.means(&path))
    }

    /// Whether there is no rule for a file only because it is one of the system's, which a pattern
    /// that does not begin with `/` does not mean.
    pub fn spares(rules: &[BlobRule], path: &str) -> bool {
        let absolute = || pattern::absolute(path, super::working_directory);
        !rules.is_empty()
            && !path.ends_with(SHARED_MEMORY)
            && Self::of(rules, path).is_none()
            && rules.iter().any(|rule| rule.pattern.matches(&absolute()))
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
    fn files_of_the_system_are_spared_by_rules_that_do_not_begin_at_the_root() {
        let all = rules("*.nc").expect("a rule");
        assert!(BlobRule::spares(&all, "/dev/shm/a.nc") && !BlobRule::spares(&all, "/data/a.nc"));
        assert!(
            !BlobRule::spares(&all, "/dev/shm/a.txt") && !BlobRule::spares(&[], "/dev/shm/a.nc")
        );
        let named = rules("/dev/shm/**").expect("a rule");
        assert!(!BlobRule::spares(&named, "/dev/shm/a.nc"));
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
    fn a_container_becomes_blobs_of_another_layout() {
        let rules = rules("*.nc:e3sm,*.h5:e3sm-h5:blobs=4:nocrc,*").expect("good rules");
        let of = |path| BlobRule::of(&rules, path).map(|rule| (rule.layout, rule.files));
        assert_eq!(of("a.nc"), Some((Layout::E3sm, 0)));
        assert_eq!(of("a.h5"), Some((Layout::E3smHdf5, 4)));
        assert_eq!(of("a"), Some((Layout::Container, 0)));
    }

    #[test]
    fn writes_reach_their_log_when_the_rule_says() {
        let rules = rules("a:close,b:nocrc:causal,c").expect("good rules");
        let mode = |path| BlobRule::of(&rules, path).map(|rule| rule.mode);
        let modes = ["/a", "/b", "/c"].map(mode);
        assert_eq!(modes, [Mode::Close, Mode::Causal, Mode::Posix].map(Some));
    }

    #[test]
    fn an_unknown_option_is_an_error() {
        assert_eq!(rules("*.nc:fast"), None);
        assert_eq!(rules("*.nc:blobs=4"), None, "containers are not made of so many files");
        assert_eq!(rules("*.nc:e3sm:blobs=0"), None);
        assert_eq!(rules(""), Some(Vec::new()));
    }
}
