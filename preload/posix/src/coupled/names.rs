//! Distinguishes names of coupled files from other names.

use crate::config;
use crate::containers::{self, Name};
use crate::errno;
use crate::state::{self, Inside};
use agg_core::settings::couple::CoupleRule;
use aggio_couple::coupled_name;
use libc::c_int;
use std::path::{Path, PathBuf};

/// Returns the absolute name, without links, of the coupled file that a call refers to; `None` if
/// the name is not coupled. A link at the end of the name is followed if `follow`.
pub(super) fn coupled(at: c_int, path: Name, follow: bool) -> Option<PathBuf> {
    if !state::has_coupled() || Inside::is() {
        return None;
    }
    let _errno = errno::Keep::new();
    let _inside = Inside::enter();
    of(containers::joined(at, path)?, follow)
}

/// As [`coupled`], for an absolute name.
pub(super) fn of(full: PathBuf, follow: bool) -> Option<PathBuf> {
    coupled_name(&config::get().settings.coupling.rules, full, follow)
}

/// Returns the rule for a coupled name.
pub(super) fn rule(path: &Path) -> Option<&'static CoupleRule> {
    CoupleRule::of(&config::get().settings.coupling.rules, &path.to_string_lossy())
}

/// Whether a rule has a spill directory, for files that exceed the memory.
pub(super) fn spill() -> bool {
    config::get().settings.coupling.rules.iter().any(|rule| rule.options.spill.is_some())
}

/// Whether a coupled name without a file of the agent may be that of a file on disk.
pub(super) fn may_be_on_disk(path: &Path) -> bool {
    rule(path).is_some_and(CoupleRule::uses_disk)
}
