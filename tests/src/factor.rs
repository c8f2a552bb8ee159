//! How long the random tests are.

/// How often longer the random tests are than in `make check`: `AGGIO_TEST_FACTOR`.
pub fn factor() -> usize {
    std::env::var("AGGIO_TEST_FACTOR").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Prints how many trials of a kind nothing was wrong with, and how long they took since `began`,
/// as a line for `docs/faults.md`.
pub fn told(kind: &str, of: &str, count: usize, began: std::time::Instant) {
    println!(
        "campaign: {count} {kind} of {of}: none wrong, {:.0} s",
        began.elapsed().as_secs_f64()
    );
}
