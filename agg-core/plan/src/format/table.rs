//! The plugins of this process.

use super::{Format, Recognised};
use std::sync::OnceLock;

static FORMATS: OnceLock<&'static [&'static dyn Format]> = OnceLock::new();

/// Declares the plugins; the first one that recognises a file is the one for it. Only the first
/// call counts: every rank has to make the same one, before it opens a file.
pub fn register(formats: &'static [&'static dyn Format]) {
    FORMATS.get_or_init(|| formats);
}

/// Whether there are plugins.
pub fn any() -> bool {
    !FORMATS.get().copied().unwrap_or_default().is_empty()
}

/// What a file is that begins with `head`.
pub fn recognise(head: &[u8]) -> Recognised {
    let formats = FORMATS.get().copied().unwrap_or_default();
    let found = |format: &&dyn Format| match format.recognise(head) {
        Recognised::Other => None,
        found => Some(found),
    };
    formats.iter().find_map(found).unwrap_or(Recognised::Other)
}
