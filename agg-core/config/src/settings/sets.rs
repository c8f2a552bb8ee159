//! `AGGIO_SETS`: the sets of files that are shown as the one file that they stand for.

use crate::hints::yes_or_no;
use aggio_base::pattern::{self, Pattern};

/// Sets that are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SetRule {
    /// None.
    Off,
    /// Those without a file of their own name.
    #[default]
    On,
    /// Those with a name that matches, also where a file of that name is the first of the set.
    Named(Vec<Pattern>),
}

/// Reads `on`, `off` or a list of patterns.
pub(super) fn set(rule: &mut SetRule, text: &str) -> bool {
    *rule = match yes_or_no(text) {
        Some(true) => SetRule::On,
        Some(false) => SetRule::Off,
        None => SetRule::Named(Pattern::list(text)),
    };
    true
}

impl SetRule {
    /// Whether the value of the variable shows any set at all.
    pub fn shows_any(text: &str) -> bool {
        let mut rule = SetRule::Off;
        set(&mut rule, text.trim());
        rule != SetRule::Off
    }

    /// Whether a set that `path` stands for is shown, there being no file of that name.
    pub fn shows(&self, path: &str) -> bool {
        match self {
            SetRule::Off => false,
            SetRule::On => true,
            SetRule::Named(_) => self.names(path),
        }
    }

    /// Whether a set is shown instead of the file `path`, which is its first.
    pub fn names(&self, path: &str) -> bool {
        let SetRule::Named(patterns) = self else { return false };
        let path = pattern::absolute(path, super::working_directory);
        patterns.iter().any(|pattern| pattern.means(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> SetRule {
        let mut rule = SetRule::default();
        assert!(set(&mut rule, text));
        rule
    }

    #[test]
    fn sets_without_a_file_of_their_name_are_shown_unless_they_are_not_named() {
        for (text, one, other) in [("on", true, true), ("0", false, false), ("*.nc", true, false)] {
            let rule = rule(text);
            assert_eq!((rule.shows("/d/a.nc"), rule.shows("/d/a.h5")), (one, other), "{text}");
            assert_eq!(SetRule::shows_any(text), one, "{text}");
        }
        assert_eq!(rule("yes"), SetRule::default());
    }

    #[test]
    fn a_file_is_replaced_by_its_set_only_if_it_is_named() {
        assert!(!rule("on").names("/d/a.nc") && !rule("off").names("/d/a.nc"));
        assert!(rule("/d/,*.h5").names("/d/a.nc") && !rule("*.h5").names("/d/a.nc"));
        assert!(!rule("*").names("/etc/a.nc"));
    }
}
