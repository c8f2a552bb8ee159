//! The plugins of an engine.

use super::{Format, Recognised};
use std::fmt;

/// The formats that an engine recognises, in the order in which they are asked. All ranks need the
/// same ones.
#[derive(Clone, Copy, Default)]
pub struct Formats(&'static [&'static dyn Format]);

impl Formats {
    /// These plugins; the first one that recognises a file is the one for it.
    pub const fn new(plugins: &'static [&'static dyn Format]) -> Self {
        Self(plugins)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Recognises a file that begins with `head`, by the first plugin that does.
    pub fn recognise(&self, head: &[u8]) -> Recognised {
        let found = |format: &&dyn Format| match format.recognise(head) {
            Recognised::Other => None,
            found => Some(found),
        };
        self.0.iter().find_map(found).unwrap_or(Recognised::Other)
    }
}

impl fmt::Debug for Formats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Formats").field(&self.0.len()).finish()
    }
}
