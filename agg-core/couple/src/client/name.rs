//! Resolves links in the name of a coupled file, so that programs that use different names mean the
//! same file.

use aggio_config::settings::couple::CoupleRule;
use std::path::{Path, PathBuf};

/// Links that are followed one after the other, as by the kernel.
const LINKS: usize = 40;

/// The absolute name, without links, of the coupled file that the absolute name `full` means;
/// `None` if no rule names it, or there is no such directory. A link at the end of the name is
/// followed if `follow`.
pub fn coupled_name(rules: &[CoupleRule], full: PathBuf, follow: bool) -> Option<PathBuf> {
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
