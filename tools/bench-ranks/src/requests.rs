//! The number of requests that a file system has counted, if it counts them.

/// The reads and writes counted in a file of `NAME NUMBER` lines; other names are other requests.
pub(crate) fn seen(path: Option<&String>) -> Result<u64, String> {
    let Some(path) = path else { return Ok(0) };
    let text = std::fs::read_to_string(path).map_err(|why| format!("{path}: {why}"))?;
    let transfers =
        text.lines().filter_map(|line| line.strip_prefix("read ").or(line.strip_prefix("write ")));
    transfers.map(|number| number.parse::<u64>().map_err(|_| format!("{path}: {number}"))).sum()
}
