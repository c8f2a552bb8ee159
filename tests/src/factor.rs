//! How long the random tests are.

/// How often longer the random tests are than in `make check`: `AGGIO_TEST_FACTOR`.
pub fn factor() -> usize {
    std::env::var("AGGIO_TEST_FACTOR").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}
