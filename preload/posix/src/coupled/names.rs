//! Which names are those of coupled files.

use crate::config;
use crate::containers::{self, Name};
use crate::errno;
use crate::state::{self, Inside};
use agg_core::settings::couple::CoupleRule;
use libc::c_int;
use std::path::{Path, PathBuf};

/// Links that are followed one after the other, as by the kernel.
const LINKS: usize = 40;

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
    let rules = &config::get().settings.couple;
    // Most files of most programs are told from coupled ones by the name that they give.
    let by_name = rules.iter().all(|rule| !rule.pattern().text().contains('/'));
    let is_link = || follow && full.read_link().is_ok();
    if by_name && !is_named(rules, &full) && !is_link() {
        return None;
    }
    let full = resolved(full, follow)?;
    is_named(rules, &full).then_some(full)
}

/// Whether a rule names `path`.
fn is_named(rules: &[CoupleRule], path: &Path) -> bool {
    CoupleRule::of(rules, &path.to_string_lossy()).is_some()
}

/// `full` with all links of its directory resolved, and those at its end if `follow`; `None` if
/// there is no such directory, or the name is that of a directory.
fn resolved(mut full: PathBuf, follow: bool) -> Option<PathBuf> {
    for _ in 0..LINKS {
        let name = full.file_name()?;
        full = full.parent()?.canonicalize().ok()?.join(name);
        match full.read_link() {
            Ok(target) if follow => full = full.parent()?.join(target),
            _ => return Some(full),
        }
    }
    None
}

/// The rule for a coupled name.
pub(super) fn rule(path: &Path) -> Option<&'static CoupleRule> {
    CoupleRule::of(&config::get().settings.couple, &path.to_string_lossy())
}

/// Whether a coupled name that the agent knows nothing of may be that of a file on disk.
pub(super) fn may_be_on_disk(path: &Path) -> bool {
    rule(path).is_some_and(CoupleRule::uses_disk)
}
