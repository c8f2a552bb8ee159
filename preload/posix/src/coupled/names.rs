//! Which names are those of coupled files.

use crate::config;
use crate::containers::{self, Name};
use crate::errno;
use crate::state::{self, Inside};
use agg_core::settings::couple::CoupleRule;
use aggio_couple::coupled_name;
use libc::c_int;
use std::path::{Path, PathBuf};

/// The absolute name, without links, of the coupled file that a call means; `None` if it means
/// something else. A link at the end of the name is followed if `follow`.
pub(super) fn coupled(at: c_int, path: Name, follow: bool) -> Option<PathBuf> {
    if !state::has_coupled() || Inside::is() {
        return None;
    }
    let _errno = errno::Keep::new();
    let _inside = Inside::enter();
    of(containers::joined(at, path)?, follow)
}

/// The same of an absolute name.
pub(super) fn of(full: PathBuf, follow: bool) -> Option<PathBuf> {
    coupled_name(&config::get().settings.couple, full, follow)
}

/// The rule for a coupled name.
pub(super) fn rule(path: &Path) -> Option<&'static CoupleRule> {
    CoupleRule::of(&config::get().settings.couple, &path.to_string_lossy())
}

/// Whether files may be in a directory for which there is no memory.
pub(super) fn spill() -> bool {
    config::get().settings.couple.iter().any(|rule| rule.options.spill.is_some())
}

/// Whether a coupled name that the agent knows nothing of may be that of a file on disk.
pub(super) fn may_be_on_disk(path: &Path) -> bool {
    rule(path).is_some_and(CoupleRule::uses_disk)
}
