//! The types that a hint's value may have: how each is read from text and shown as text.

use super::Chosen;
use std::borrow::Cow;
use std::fmt::Write;

/// Whether an optimisation is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Switch {
    /// The engine decides, call by call.
    #[default]
    Automatic,
    /// Always.
    Enable,
    /// Never.
    Disable,
}

/// The type of a hint's value, with its bounds (both inclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `automatic`, `enable` or `disable`.
    Switch,
    /// Yes or no, shown as `true` or `false`.
    Flag,
    /// Yes or no, shown as `enable` or `disable`.
    Enable,
    /// Bytes; `K`, `M`, `G`, `T` (times 1024) may follow the number.
    Size(u64, u64),
    /// A number of things.
    Count(u32, u32),
    /// A number that may be negative, or a file position.
    Offset(i64, i64),
    /// Permission bits, octal as in `chmod`.
    Octal(u32),
    /// Any text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A format of files.
    Format,
}

impl Kind {
    /// One word for the tables of the documentation.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Switch => "switch",
            Kind::Flag => "flag",
            Kind::Enable => "flag",
            Kind::Size(..) => "size",
            Kind::Count(..) => "count",
            Kind::Offset(..) => "number",
            Kind::Octal(_) => "octal",
            Kind::Text => "text",
            Kind::Choice(_) => "choice",
            Kind::Format => "format",
        }
    }

    /// The accepted form, for messages and documents: `a size such as 4194304, 4M or 1G, from 1`.
    pub fn accepted_form(&self) -> String {
        match *self {
            Kind::Switch => "automatic, enable or disable".into(),
            Kind::Flag => "true or false".into(),
            Kind::Enable => "enable or disable".into(),
            Kind::Size(min, u64::MAX) => format!("a size from {min}, such as 65536, 64K, 4M or 1G"),
            Kind::Size(min, max) => {
                format!("a size from {min} to {max}, such as 65536, 64K, 4M or 1G")
            }
            Kind::Count(min, u32::MAX) => format!("a whole number from {min}"),
            Kind::Count(min, max) => format!("a whole number from {min} to {max}"),
            Kind::Offset(min, i64::MAX) => format!("a whole number from {min}"),
            Kind::Offset(min, max) => format!("a whole number from {min} to {max}"),
            Kind::Octal(max) => format!("an octal number from 0 to {max:o}"),
            Kind::Text => "any text".into(),
            Kind::Choice(words) => words.join(", "),
            Kind::Format => Chosen::FORM.into(),
        }
    }
}

/// A field of the struct of hints: reads and shows itself as its kind demands.
pub(super) trait Field {
    /// Takes the value from `text`; leaves the old one if `text` is not of the accepted form.
    fn accept(&mut self, kind: &Kind, text: &str) -> bool;

    /// Appends the value as users write it; nothing if there is none.
    fn show(&self, kind: &Kind, to: &mut String);
}

impl Field for Switch {
    fn accept(&mut self, _: &Kind, text: &str) -> bool {
        *self = match (text.to_ascii_lowercase().as_str(), yes_or_no(text)) {
            ("automatic" | "auto", _) => Switch::Automatic,
            (_, Some(true)) => Switch::Enable,
            (_, Some(false)) => Switch::Disable,
            _ => return false,
        };
        true
    }

    fn show(&self, _: &Kind, to: &mut String) {
        to.push_str(match self {
            Switch::Automatic => "automatic",
            Switch::Enable => "enable",
            Switch::Disable => "disable",
        });
    }
}

impl Field for bool {
    fn accept(&mut self, _: &Kind, text: &str) -> bool {
        yes_or_no(text).map(|value| *self = value).is_some()
    }

    fn show(&self, kind: &Kind, to: &mut String) {
        to.push_str(match (kind, self) {
            (Kind::Enable, true) => "enable",
            (Kind::Enable, false) => "disable",
            (_, true) => "true",
            (_, false) => "false",
        });
    }
}

impl Field for u64 {
    fn accept(&mut self, kind: &Kind, text: &str) -> bool {
        let Kind::Size(min, max) = *kind else { return false };
        let value = bytes(text).filter(|value| (min..=max).contains(value));
        value.map(|value| *self = value).is_some()
    }

    fn show(&self, _: &Kind, to: &mut String) {
        // Writing to a `String` cannot fail.
        let _ = write!(to, "{self}");
    }
}

impl Field for u32 {
    fn accept(&mut self, kind: &Kind, text: &str) -> bool {
        let value = match *kind {
            Kind::Count(min, max) => {
                text.parse().ok().filter(|value: &u32| (min..=max).contains(value))
            }
            Kind::Octal(max) => octal(text).filter(|&value| value <= max),
            _ => None,
        };
        value.map(|value| *self = value).is_some()
    }

    fn show(&self, kind: &Kind, to: &mut String) {
        let octal = matches!(kind, Kind::Octal(_));
        // Writing to a `String` cannot fail.
        let _ = if octal { write!(to, "{self:04o}") } else { write!(to, "{self}") };
    }
}

impl Field for i64 {
    fn accept(&mut self, kind: &Kind, text: &str) -> bool {
        let Kind::Offset(min, max) = *kind else { return false };
        let value = text.parse().ok().filter(|value: &i64| (min..=max).contains(value));
        value.map(|value| *self = value).is_some()
    }

    fn show(&self, _: &Kind, to: &mut String) {
        // Writing to a `String` cannot fail.
        let _ = write!(to, "{self}");
    }
}

impl Field for Cow<'static, str> {
    fn accept(&mut self, kind: &Kind, text: &str) -> bool {
        let value = match kind {
            Kind::Choice(words) => {
                let word = words.iter().find(|word| word.eq_ignore_ascii_case(text));
                word.map(|&word| Cow::Borrowed(word))
            }
            _ => (!text.contains(char::is_control)).then(|| Cow::Owned(text.to_owned())),
        };
        value.map(|value| *self = value).is_some()
    }

    fn show(&self, _: &Kind, to: &mut String) {
        to.push_str(self);
    }
}

impl Field for Chosen {
    fn accept(&mut self, _: &Kind, text: &str) -> bool {
        Chosen::read(text).map(|value| *self = value).is_some()
    }

    fn show(&self, _: &Kind, to: &mut String) {
        // Writing to a `String` cannot fail.
        let _ = write!(to, "{self}");
    }
}

/// The meaning of the usual words for yes and no, in any case.
pub(crate) fn yes_or_no(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "true" | "yes" | "enable" | "enabled" => Some(true),
        "0" | "off" | "false" | "no" | "disable" | "disabled" => Some(false),
        _ => None,
    }
}

/// A number of bytes: digits, then nothing or `K`, `M`, `G`, `T` with an optional `B` or `iB`.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Octal digits with an optional `0o`.
fn octal(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| u32::from_str_radix(digits, 8).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_units_and_never_wrap() {
        for (text, expected) in [
            ("0", Some(0)),
            ("65536", Some(65536)),
            ("64K", Some(65536)),
            ("4m", Some(4 << 20)),
            ("4 MiB", Some(4 << 20)),
            ("1GB", Some(1 << 30)),
            ("2T", Some(2 << 40)),
            ("99999999999999T", None),
            ("18446744073709551616", None),
            ("-1", None),
            ("+1", None),
            ("K", None),
            ("1.5M", None),
            ("1e6", None),
            ("", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn permissions_are_octal_within_their_bound() {
        let mut mode = 0o666u32;
        let kind = Kind::Octal(0o7777);
        for bad in ["rw-r--r--", "0o", "888", "17777", "-1", "0x1ff"] {
            assert!(!mode.accept(&kind, bad), "{bad}");
        }
        assert_eq!(mode, 0o666);
        assert!(mode.accept(&kind, "0640") && mode == 0o640);
        let mut shown = String::new();
        mode.show(&kind, &mut shown);
        assert_eq!(shown, "0640");
    }

    #[test]
    fn a_value_out_of_bounds_leaves_the_old_one() {
        let mut size = 5u64;
        assert!(!size.accept(&Kind::Size(1, 10), "0") && !size.accept(&Kind::Size(1, 10), "11"));
        assert_eq!(size, 5);
        let mut number = 3i64;
        assert!(number.accept(&Kind::Offset(-1, 9), "-1") && number == -1);
        assert!(!number.accept(&Kind::Offset(-1, 9), "-2"));
    }

    #[test]
    fn a_switch_knows_the_words_of_every_implementation() {
        let mut switch = Switch::Automatic;
        for (text, expected) in
            [("enable", Switch::Enable), ("FALSE", Switch::Disable), ("auto", Switch::Automatic)]
        {
            assert!(switch.accept(&Kind::Switch, text));
            assert_eq!(switch, expected);
        }
        assert!(!switch.accept(&Kind::Switch, "maybe"));
    }
}
