//! File name patterns: `*`, `**`, `?` and `[...]`, as in a shell.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A pattern for names of files.
///
/// `*` and `?` do not match `/`; `**` does, and `**/` may stand for no directory at all. `[abc]`,
/// `[a-z]`, `[!abc]` match one character that is not `/`. A backslash takes the next character as
/// it is. A pattern without `/` is compared with the last component of a path, one with `/` with
/// the whole; a relative one may begin at any component, and one that ends in `/` means everything
/// below.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Whether it has matched any file, here or in a copy.
    used: Arc<AtomicBool>,
    text: String,
    tokens: Vec<Token>,
    whole_path: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// This character.
    Literal(char),
    /// Any one character but `/`.
    One,
    /// One character but `/` that is (or, negated, is not) in one of the ranges.
    Set { negated: bool, ranges: Vec<(char, char)> },
    /// Any characters but `/`.
    Many,
    /// Any characters.
    Deep,
    /// Nothing, or any characters up to and with a `/`.
    Directories,
}

impl Pattern {
    /// The pattern that `text` spells. Every text spells one; an open `[` stands for itself.
    pub fn new(text: &str) -> Self {
        let mut tokens = tokens(text);
        let whole_path =
            tokens.contains(&Token::Literal('/')) || tokens.contains(&Token::Directories);
        if whole_path && !matches!(tokens[0], Token::Literal('/') | Token::Directories) {
            tokens.insert(0, Token::Directories);
        }
        if matches!(tokens.last(), Some(Token::Literal('/') | Token::Directories)) {
            tokens.push(Token::Deep);
        }
        Self { used: Arc::default(), text: text.into(), tokens, whole_path }
    }

    /// Whether this pattern, or a copy of it, has matched a file; also whether that is no wonder,
    /// because it means all files.
    pub fn was_used(&self) -> bool {
        self.used.load(Relaxed)
            || self.tokens.iter().all(|t| matches!(t, Token::Many | Token::Deep))
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The patterns of a list separated by commas; empty ones are left out.
    pub fn list(text: &str) -> Vec<Self> {
        list_parts(text).into_iter().map(Self::new).collect()
    }

    /// Whether the pattern matches `path`, an absolute name.
    pub fn matches(&self, path: &str) -> bool {
        let subject = match path.rsplit_once('/') {
            Some((_, name)) if !self.whole_path => name,
            _ => path,
        };
        let subject: Vec<char> = subject.chars().collect();
        // reach[i]: the tokens so far match the first i characters. Never exponential.
        let mut reach = vec![false; subject.len() + 1];
        reach[0] = true;
        for token in &self.tokens {
            reach = token.step(&reach, &subject);
        }
        if reach[subject.len()] {
            self.used.store(true, Relaxed);
        }
        reach[subject.len()]
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        (&self.tokens, self.whole_path) == (&other.tokens, other.whole_path)
    }
}

impl Eq for Pattern {}

/// Directories of files that belong to the system, and beginnings of names of files that MPI
/// runtimes make for themselves.
const OF_THE_SYSTEM: &[&str] = &["/dev/", "/etc/", "/proc/", "/run/", "/sys/", "/usr/", "/lib"];
const OF_RUNTIMES: &[&str] = &["ompi.", "openmpi-sessions", "pmix", "prte.", "mpich_"];

/// Whether `path`, an absolute name, is a file of the system or of a runtime.
fn is_of_others(path: &str) -> bool {
    OF_THE_SYSTEM.iter().any(|beginning| path.starts_with(beginning))
        || path.split('/').any(|part| OF_RUNTIMES.iter().any(|name| part.starts_with(name)))
}

impl Pattern {
    /// As [`matches`](Pattern::matches), but files of the system and of runtimes match only
    /// patterns that begin with `/`, so that a pattern for a program's files does not match them by
    /// chance.
    pub fn means(&self, path: &str) -> bool {
        let absolute = self.tokens.first() == Some(&Token::Literal('/'));
        (absolute || !is_of_others(path)) && self.matches(path)
    }
}

impl Token {
    /// The ends that this token reaches from the ends reached so far.
    fn step(&self, reach: &[bool], subject: &[char]) -> Vec<bool> {
        let mut next = vec![false; reach.len()];
        let mut open = false;
        for i in 0..reach.len() {
            let before = i.checked_sub(1).map(|i| subject[i]);
            next[i] = match self {
                Token::Many => {
                    open = reach[i] || (open && before != Some('/'));
                    open
                }
                Token::Deep => {
                    open |= reach[i];
                    open
                }
                Token::Directories => {
                    let ended = open && before == Some('/');
                    open |= reach[i];
                    reach[i] || ended
                }
                one => before.is_some_and(|c| reach[i - 1] && one.takes(c)),
            };
        }
        next
    }

    /// Whether this token, one for a single character, takes `c`.
    fn takes(&self, c: char) -> bool {
        match self {
            Token::Literal(literal) => *literal == c,
            Token::One => c != '/',
            Token::Set { negated, ranges } => {
                let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
                c != '/' && inside != *negated
            }
            _ => false,
        }
    }
}

/// Cuts the text of a pattern into tokens.
fn tokens(text: &str) -> Vec<Token> {
    let text: Vec<char> = text.chars().collect();
    let last = last_bracket(&text);
    let mut tokens = Vec::new();
    let mut i = 0;
    while i < text.len() {
        let (token, used) = match text[i] {
            '\\' if i + 1 < text.len() => (Token::Literal(text[i + 1]), 2),
            '?' => (Token::One, 1),
            '*' => star(&text, i),
            '[' => set(&text, i, last).unwrap_or((Token::Literal('['), 1)),
            c => (Token::Literal(c), 1),
        };
        tokens.push(token);
        i += used;
    }
    tokens
}

/// The token of the stars at `i`, and how many characters it takes.
fn star(text: &[char], i: usize) -> (Token, usize) {
    let stars = text[i..].iter().take_while(|c| **c == '*').count();
    let starts_component = i == 0 || text[i - 1] == '/';
    match stars {
        1 => (Token::Many, 1),
        _ if starts_component && text.get(i + stars) == Some(&'/') => {
            (Token::Directories, stars + 1)
        }
        _ => (Token::Deep, stars),
    }
}

/// The index of the last `]`, without which no set ends.
fn last_bracket(text: &[char]) -> Option<usize> {
    text.iter().rposition(|c| *c == ']')
}

/// The set that begins at `start`, and how many characters it takes; `None` if it has no end.
/// `last` is the [`last_bracket`]: texts full of `[` take no longer than others.
fn set(text: &[char], start: usize, last: Option<usize>) -> Option<(Token, usize)> {
    let negated = matches!(text.get(start + 1), Some('!' | '^'));
    let first = start + if negated { 2 } else { 1 };
    if last.is_none_or(|last| last <= first) {
        return None;
    }
    let mut ranges = Vec::new();
    let mut i = first;
    while text.get(i).is_some_and(|c| *c != ']' || i == first) {
        let low = text[i];
        let is_range = text.get(i + 1) == Some(&'-') && text.get(i + 2).is_some_and(|c| *c != ']');
        ranges.push((low, if is_range { text[i + 2] } else { low }));
        i += if is_range { 3 } else { 1 };
    }
    (i < text.len()).then_some((Token::Set { negated, ranges }, i + 1 - start))
}

/// The parts of a list separated by commas, without the empty ones.
pub fn list_parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for end in commas(text).into_iter().chain([text.len()]) {
        parts.push(text[start..end].trim());
        start = (end + 1).min(text.len());
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Positions of the commas that separate, not those after a backslash or inside `[...]`.
pub fn commas(text: &str) -> Vec<usize> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let plain: Vec<char> = chars.iter().map(|(_, c)| *c).collect();
    let (mut found, mut i, last) = (Vec::new(), 0, last_bracket(&plain));
    while i < plain.len() {
        i += match plain[i] {
            '\\' => 2,
            '[' => set(&plain, i, last).map_or(1, |(_, used)| used),
            c => {
                if c == ',' {
                    found.push(chars[i].0);
                }
                1
            }
        };
    }
    found
}

/// `path` without `.`, `..` and double slashes, made absolute with `directory` if it is relative.
///
/// Symbolic links are not followed: patterns apply to names, not to the targets of links.
pub fn absolute(path: &str, directory: impl FnOnce() -> String) -> String {
    let full = if path.starts_with('/') { path.into() } else { format!("{}/{path}", directory()) };
    let mut parts: Vec<&str> = Vec::new();
    for part in full.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(pattern: &str, path: &str, expected: bool) {
        assert_eq!(Pattern::new(pattern).matches(path), expected, "{pattern} {path}");
    }

    #[test]
    fn a_pattern_without_slash_is_compared_with_the_last_component() {
        check("*", "/a/b/c.nc", true);
        check("**", "/a/b/c.nc", true);
        check("*.nc", "/a/b/c.nc", true);
        check("c.nc", "/a/b/c.nc", true);
        check("b", "/a/b/c.nc", false);
        check("", "/a", false);
    }

    #[test]
    fn files_of_the_system_are_meant_only_by_patterns_that_begin_at_the_root() {
        let means = |pattern: &str, path| Pattern::new(pattern).means(path);
        for path in ["/dev/shm/seg", "/proc/self/maps", "/tmp/ompi.h.0/pid", "/etc/hosts"] {
            assert!(!means("*", path) && !means("**/*", path), "{path}");
        }
        assert!(means("/dev/shm/**", "/dev/shm/data") && means("*", "/tmp/data"));
        assert!(means("*.nc", "/scratch/a.nc"));
    }

    #[test]
    fn a_star_stops_at_a_slash_and_two_do_not() {
        check("/a/*", "/a/b", true);
        check("/a/*", "/a/b/c", false);
        check("/a/**", "/a/b/c", true);
        check("/a/**/c", "/a/c", true);
        check("/a/**/c", "/a/x/y/c", true);
        check("/a/**/c", "/a/xc", false);
        check("/a**c", "/abc/x/c", true);
    }

    #[test]
    fn a_relative_pattern_begins_at_any_component() {
        check("b/*.nc", "/a/b/c.nc", true);
        check("b/*.nc", "/a/xb/c.nc", false);
        check("**/c.nc", "/c.nc", true);
    }

    #[test]
    fn a_slash_at_the_end_means_everything_below() {
        check("/a/", "/a/b/c", true);
        check("/a/", "/ab", false);
        check("a/", "/x/a/b/c", true);
    }

    #[test]
    fn sets_questions_and_escapes_match_one_character() {
        check("r[0-9].nc", "/r7.nc", true);
        check("r[!0-9].nc", "/r7.nc", false);
        check("r[]x].nc", "/r].nc", true);
        check("r?.nc", "/r.nc", false);
        check("a\\*b", "/a*b", true);
        check("a\\*b", "/axb", false);
        check("a[b", "/a[b", true);
        check("/a[!b]c", "/a/c", false);
    }

    #[test]
    fn a_list_is_cut_at_commas_outside_of_sets() {
        let count = |text: &str| Pattern::list(text).len();
        assert_eq!(count("*.nc, *.h5,,"), 2);
        assert_eq!(count("a[,;]b,c\\,d"), 2);
        assert_eq!(count(""), 0);
    }

    #[test]
    fn a_path_is_made_absolute_by_its_words_alone() {
        let at = |path: &str| absolute(path, || "/home/dir".into());
        assert_eq!(at("x"), "/home/dir/x");
        assert_eq!(at("../x//y/."), "/home/x/y");
        assert_eq!(at("/../../x"), "/x");
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = Pattern::new(&"*a".repeat(200));
        assert!(!pattern.matches(&format!("/{}b", "a".repeat(4000))));
    }

    /// Tries every way to match, straight from the definition; patterns of `a b / * ?` only.
    fn naive(pattern: &[char], text: &[char], component_start: bool) -> bool {
        let stars = pattern.iter().take_while(|c| **c == '*').count();
        let split = |n: usize| (0..=text.len()).map(move |k| (k, n));
        match (stars, pattern.first()) {
            (_, None) => text.is_empty(),
            (1, _) => split(1)
                .take_while(|(k, _)| !text[..*k].contains(&'/'))
                .any(|(k, n)| naive(&pattern[n..], &text[k..], false)),
            (n, _) if n >= 2 && component_start && pattern.get(n) == Some(&'/') => split(n + 1)
                .filter(|(k, _)| *k == 0 || text[*k - 1] == '/')
                .any(|(k, n)| naive(&pattern[n..], &text[k..], true)),
            (n, _) if n >= 2 => split(n).any(|(k, n)| naive(&pattern[n..], &text[k..], false)),
            (_, Some(p)) => text.first().is_some_and(|c| {
                (p == c || (*p == '?' && *c != '/')) && naive(&pattern[1..], &text[1..], *p == '/')
            }),
        }
    }

    proptest! {
        #[test]
        fn the_matcher_agrees_with_the_definition(
            pattern in "/[ab/*?]{0,8}",
            path in "(/[ab]{1,3}){1,3}",
        ) {
            let folder = pattern.ends_with('/');
            let spelled = if folder { format!("{pattern}**") } else { pattern.clone() };
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = naive(&chars(&spelled), &chars(&path), true);
            prop_assert_eq!(Pattern::new(&pattern).matches(&path), expected);
        }

        #[test]
        fn no_text_makes_the_matcher_panic(pattern in ".*", path in ".*") {
            Pattern::new(&pattern).matches(&path);
            Pattern::list(&pattern);
            absolute(&path, || pattern.clone());
        }
    }

    #[test]
    fn brackets_without_an_end_take_no_time() {
        let text = "[".repeat(1 << 20);
        assert_eq!(commas(&text), []);
        assert_eq!(tokens(&text).len(), text.len());
    }
}
