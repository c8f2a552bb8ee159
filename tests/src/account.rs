//! Accounts of the results of operations, natively and with the library.

/// The first difference, and the operations before it.
pub fn first_difference(native: &str, served: &str) -> Option<String> {
    let (native, served): (Vec<_>, Vec<_>) = (native.lines().collect(), served.lines().collect());
    let longest = native.len().max(served.len());
    let at = (0..longest).find(|index| native.get(*index) != served.get(*index))?;
    let case = native[..at.min(native.len())].iter().rposition(|line| line.starts_with("case "));
    let before = native[case.unwrap_or(0)..at.min(native.len())].join("\n");
    Some(format!("{before}\nnatively {:?}, served {:?}", native.get(at), served.get(at)))
}
