//! "Did you mean": the known name that a misspelled one is closest to.

/// Longest name that is compared; longer ones are surely not misspelled known names.
const LONGEST: usize = 64;

/// The name among `known` that differs from `name` by at most two edits (one for short names).
///
/// An edit inserts, removes or replaces a character or swaps two neighbours; case does not count.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST {
        return None;
    }
    let name = name.to_ascii_lowercase().replace('-', "_");
    let allowed = if name.len() < 5 { 1 } else { 2 };
    known
        .into_iter()
        .map(|candidate| (distance(&name, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(edits, _)| *edits <= allowed)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Number of edits between two texts (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut edits = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                edits = edits.min(before[j - 2] + 1);
            }
            row.push(edits);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["romio_cb_write", "romio_cb_read", "cb_nodes", "cb_buffer_size"];

    #[test]
    fn swapped_letters_are_one_edit() {
        assert_eq!(distance("wirte", "write"), 1);
        assert_eq!(nearest("romio_cb_wirte", KNOWN), Some("romio_cb_write"));
    }

    #[test]
    fn case_and_dashes_are_forgiven() {
        assert_eq!(nearest("CB-Nodes", KNOWN), Some("cb_nodes"));
    }

    #[test]
    fn a_name_like_nothing_known_has_no_neighbour() {
        assert_eq!(nearest("entirely_different", KNOWN), None);
        assert_eq!(nearest(&"x".repeat(100_000), KNOWN), None);
        assert_eq!(nearest("", KNOWN), None);
    }

    #[test]
    fn distance_counts_insertions_removals_and_replacements() {
        for (a, b, edits) in
            [("", "abc", 3), ("abc", "", 3), ("abc", "abd", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(a, b), edits, "{a} {b}");
        }
    }
}
