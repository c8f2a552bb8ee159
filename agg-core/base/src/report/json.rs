//! Texts and numbers as JSON.

/// Numbers by name, as a JSON object.
pub fn object<T: AsRef<str>>(counts: Vec<(T, u64)>) -> String {
    let fields = counts.iter().map(|(name, count)| format!("{}:{count}", quoted(name.as_ref())));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// `text` as a JSON string.
pub fn quoted(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' || c == '\u{7f}' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}
