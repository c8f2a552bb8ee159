//! Names of the parts of a container.

/// The name of the manifest, the part that makes a directory a container. Its permissions are those
/// of the file.
pub const MANIFEST: &str = "aggio-manifest";

/// The name of the file with the sequence counter.
pub(crate) const ORDER: &str = "order";

/// The name of the log with this id.
pub(crate) fn log_name(id: u64) -> String {
    format!("{id:016x}.log")
}

/// The id of the log with this name.
pub(crate) fn log_id(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 16)?;
    let lower = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    lower.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sixteen_small_hexadecimal_digits_name_a_log() {
        assert_eq!(log_id(&log_name(0xabc)), Some(0xabc));
        for name in ["abc.log", "0123456789ABCDEF.log", "+123456789abcdef.log", "0123456789abcdef"]
        {
            assert_eq!(log_id(name), None, "{name}");
        }
    }
}
