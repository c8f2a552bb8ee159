//! The hint for the time at which staged writes go into their file.

/// The time at which staged bytes go into their file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drain {
    /// When the file is synchronised or closed.
    #[default]
    Close,
    /// When the file is synchronised, when another program closes it, or when the user asks.
    Later,
    /// While the program computes, too: bytes that have not changed for a while.
    Idle,
}

impl Drain {
    /// The words for them, the default first.
    pub const WORDS: &'static [&'static str] = &["close", "later", "idle"];

    /// The value for a word.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "close" => Some(Drain::Close),
            "later" => Some(Drain::Later),
            "idle" => Some(Drain::Idle),
            _ => None,
        }
    }
}
