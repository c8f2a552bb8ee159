//! The hint for the checksums of a container that reads verify.

/// Whether bytes that are read are compared with the checksums of their frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Each frame, before the first of its bytes are returned: those that are read in part are read
    /// as a whole once.
    Always,
    /// Frames that a read covers as a whole, or reads one after another do: then the last of them
    /// fails.
    #[default]
    Whole,
    /// None.
    Never,
}

impl Verify {
    /// The words for them, the default first.
    pub const WORDS: &'static [&'static str] = &["whole", "always", "never"];

    /// The value for a word.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "always" => Some(Verify::Always),
            "whole" => Some(Verify::Whole),
            "never" => Some(Verify::Never),
            _ => None,
        }
    }
}
