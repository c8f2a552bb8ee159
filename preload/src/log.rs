//! Lines for the user, on standard error.

/// Writes one line with the program's prefix.
pub fn warn(text: &str) {
    always(text);
}

/// Writes one line whatever the settings are: the program ends because of it.
pub fn always(text: &str) {
    let line = format!("aggio: {text}\n");
    // SAFETY: the buffer is `line`'s; a failure to complain has no one to complain to.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}
