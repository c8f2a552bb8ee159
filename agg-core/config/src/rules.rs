//! `AGGIO_POSIX`: the files of ordinary programs that are served, and the consistency of each.

use aggio_base::pattern::{Pattern, commas};

/// When bytes that a program has written reach the kernel, where others see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At once: no write is buffered.
    Posix,
    /// Before the process can notify another one of them in a way that the library sees.
    Causal,
    /// When the file is closed or synchronised, and before fork, exec and exit.
    Close,
}

impl Mode {
    /// Every mode, the strictest first.
    pub const ALL: [Mode; 3] = [Mode::Posix, Mode::Causal, Mode::Close];

    /// The word in `AGGIO_POSIX` and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Posix => "posix",
            Mode::Causal => "causal",
            Mode::Close => "close",
        }
    }
}

/// One rule: files of these names are served in this mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The names that the rule applies to.
    pub pattern: Pattern,
    /// The consistency of these files.
    pub mode: Mode,
}

impl Rule {
    /// The rules of `PATTERN:MODE,...`; `None` if a part has no mode or one that does not exist.
    pub fn list(text: &str) -> Option<Vec<Rule>> {
        let (mut rules, mut start) = (Vec::new(), 0);
        for end in commas(text).into_iter().chain([text.len()]) {
            let part = text[start..end].trim();
            if !part.is_empty() {
                let (pattern, mode) = part.rsplit_once(':')?;
                let mode = Mode::ALL.into_iter().find(|known| known.name() == mode.trim())?;
                let pattern = pattern.trim();
                if pattern.is_empty() {
                    return None;
                }
                rules.push(Rule { pattern: Pattern::new(pattern), mode });
            }
            start = (end + 1).min(text.len());
        }
        Some(rules)
    }

    /// The mode of the first rule that names `path`, an absolute name.
    pub fn find(rules: &[Rule], path: &str) -> Option<Mode> {
        rules.iter().find(|rule| rule.pattern.means(path)).map(|rule| rule.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_names_the_file_counts() {
        let rules = Rule::list("/scratch/log/*:posix, /scratch/:close,*.nc:causal").unwrap();
        assert_eq!(Rule::find(&rules, "/scratch/log/a.nc"), Some(Mode::Posix));
        assert_eq!(Rule::find(&rules, "/scratch/out/a.nc"), Some(Mode::Close));
        assert_eq!(Rule::find(&rules, "/home/a.nc"), Some(Mode::Causal));
        assert_eq!(Rule::find(&rules, "/home/a.h5"), None);
    }

    #[test]
    fn a_rule_without_a_known_mode_is_no_rule() {
        for text in ["*.nc", "*.nc:", "*.nc:job", ":close", "*.nc:close,*.h5:closed"] {
            assert_eq!(Rule::list(text), None, "{text}");
        }
        assert_eq!(Rule::list(" , "), Some(Vec::new()));
    }
}
