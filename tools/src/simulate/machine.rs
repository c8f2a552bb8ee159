//! A machine: numbers that a file, a preset or the command line gives.

/// Calls a macro with every property: name, unit, preset values, meaning.
macro_rules! properties {
    ($(
        $name:ident: $unit:ident, [$laptop:literal, $cluster:literal, $lustre:literal],
        $doc:literal;
    )*) => {
        /// The properties of the simulated machine. Sizes in bytes, times in seconds, bandwidths in
        /// bytes per second.
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) struct Machine {
            $(#[doc = $doc] pub(crate) $name: f64,)*
        }

        impl Machine {
            /// Name and meaning of every property.
            pub(crate) const PROPERTIES: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), $doc)),*];

            /// The machine of a preset: `laptop`, `cluster` or `lustre`.
            pub(crate) fn preset(name: &str) -> Option<Self> {
                let column = Self::PRESETS.iter().position(|preset| *preset == name)?;
                Some(Self {
                    $($name: parse(Unit::$unit, [$laptop, $cluster, $lustre][column]).ok()?,)*
                })
            }

            /// Sets one property from text.
            ///
            /// # Errors
            /// Names the error.
            fn assign(&mut self, name: &str, value: &str) -> Result<(), String> {
                match name {
                    $(stringify!($name) => {
                        let found = parse(Unit::$unit, value);
                        self.$name = found.map_err(|why| format!("{name}: {why}"))?;
                    })*
                    _ => return Err(unknown(name)),
                }
                Ok(())
            }

            /// Every property with its value.
            pub(crate) fn named(&self) -> Vec<(&'static str, f64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

properties! {
    nodes: Positive, ["1", "10000", "10000"], "Nodes at most";
    ranks_per_node: Positive, ["8", "128", "128"],
        "Ranks of a full node; rank r is on node r / ranks_per_node";
    block_size: PositiveSize, ["4K", "4K", "4K"], "What the file system stores as a unit, in bytes";
    stripe_size: Size, ["0", "0", "1M"], "Bytes of a stripe, 0 if files are not striped";
    stripe_count: Positive, ["1", "1", "64"], "Storage targets that a file is striped over";
    lock_unit: PositiveSize, ["4K", "64K", "1M"],
        "Bytes that the file system locks for a node as a whole";
    request_latency: Time, ["20us", "1ms", "1ms"],
        "From a request to the file system to its answer";
    request_size: PositiveSize, ["1M", "1M", "1M"],
        "Bytes that a node sends to a storage target in one request at most";
    requests_under_way: Positive, ["8", "8", "8"],
        "Requests of a node that one storage target has at a time";
    target_bandwidth: Rate, ["2G", "10G", "2G"], "Of one storage target";
    network_latency: Time, ["1us", "2us", "2us"], "Of one message between nodes";
    network_bandwidth: Rate, ["10G", "12G", "24G"], "Of one node, each way";
    memory_bandwidth: Rate, ["8G", "50G", "100G"],
        "Of copies on one node, by all of its ranks together";
}

#[derive(Clone, Copy)]
enum Unit {
    Positive,
    Size,
    PositiveSize,
    Time,
    Rate,
}

impl Machine {
    /// The names of presets, as in the columns of the table above.
    pub(crate) const PRESETS: [&'static str; 3] = ["laptop", "cluster", "lustre"];

    /// The machine that `NAME = VALUE` lines describe; other properties are those of `cluster`.
    ///
    /// # Errors
    /// Names the first line that is wrong.
    pub(crate) fn described(text: &str) -> Result<Self, String> {
        let mut machine = Self::preset("cluster").ok_or("no preset cluster")?;
        machine.read(text)?;
        Ok(machine)
    }

    /// Takes `NAME = VALUE` lines; text after a `#` is a remark.
    ///
    /// # Errors
    /// Names the first line that is wrong.
    pub(crate) fn read(&mut self, text: &str) -> Result<(), String> {
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if !line.is_empty() {
                self.set(line).map_err(|why| format!("line {}: {why}", index + 1))?;
            }
        }
        Ok(())
    }

    /// Takes one `NAME=VALUE`.
    ///
    /// # Errors
    /// Names the error.
    pub(crate) fn set(&mut self, pair: &str) -> Result<(), String> {
        let (name, value) = pair.split_once('=').ok_or(format!("\"{pair}\": want NAME=VALUE"))?;
        self.assign(name.trim(), value.trim())
    }

    /// The nodes that `ranks` ranks fill.
    ///
    /// # Errors
    /// The machine has not so many.
    pub(crate) fn nodes_for(&self, ranks: u64) -> Result<u64, String> {
        let nodes = ranks.div_ceil(self.ranks_per_node as u64);
        if nodes as f64 > self.nodes {
            let (most, each) = (self.nodes, self.ranks_per_node);
            return Err(format!("{ranks} ranks need {nodes} nodes of {each}, there are {most}"));
        }
        Ok(nodes)
    }
}

fn unknown(name: &str) -> String {
    let near = agg_core::spelling::nearest(name, Machine::PROPERTIES.iter().map(|(name, _)| *name));
    match near {
        Some(near) => format!("no property \"{name}\"; did you mean {near}?"),
        None => format!("no property \"{name}\""),
    }
}

/// A number with its unit.
fn parse(unit: Unit, text: &str) -> Result<f64, String> {
    let scales: &[(&str, f64)] = match unit {
        Unit::Positive => &[("", 1.0)],
        Unit::Time => &[("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)],
        Unit::Size | Unit::PositiveSize | Unit::Rate => &[
            ("K", 1024.0),
            ("M", 1048576.0),
            ("G", 1073741824.0),
            ("T", 1099511627776.0),
            ("", 1.0),
        ],
    };
    let wanted = match unit {
        Unit::Positive => "a whole number",
        Unit::Time => "a time with ns, us, ms or s",
        Unit::Size | Unit::PositiveSize => "bytes, with K, M, G or T",
        Unit::Rate => "bytes per second, with K, M, G or T",
    };
    let wrong = || format!("\"{text}\" is not {wanted}");
    let split = |(suffix, scale): &(&str, f64)| Some((text.strip_suffix(suffix)?, *scale));
    let (digits, scale) = scales.iter().find_map(split).ok_or_else(wrong)?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = digits.trim().parse::<f64>().ok().filter(|_| plain).ok_or_else(wrong)? * scale;
    let whole = !matches!(unit, Unit::Time | Unit::Rate);
    if whole && (value.fract() != 0.0 || value > 1e15) {
        return Err(wrong());
    }
    let may_be_zero = matches!(unit, Unit::Size | Unit::Time);
    if value == 0.0 && !may_be_zero {
        return Err(format!("\"{text}\" must not be 0"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;

    #[test]
    fn every_preset_is_complete() {
        for name in Machine::PRESETS {
            assert!(Machine::preset(name).is_some(), "{name}");
        }
        assert_eq!(Machine::preset("abacus"), None);
    }

    #[test]
    fn a_file_changes_what_it_names() {
        let mut machine = Machine::preset("lustre").expect("a preset");
        machine.read("# small\nstripe_size = 4M # big\n\nrequest_latency=250us\n").expect("right");
        assert_eq!((machine.stripe_size, machine.stripe_count), (4194304.0, 64.0));
        assert!((machine.request_latency - 250e-6).abs() < 1e-12);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let mut machine = Machine::preset("laptop").expect("a preset");
        for (text, why) in [
            ("\nstripe_siez=1M", "line 2: no property \"stripe_siez\"; did you mean stripe_size?"),
            ("stripe_size", "line 1: \"stripe_size\": want NAME=VALUE"),
            ("request_latency=3", "line 1: request_latency: \"3\" is not a time"),
            ("nodes=0", "must not be 0"),
            ("ranks_per_node=0", "must not be 0"),
            ("ranks_per_node=1.5", "is not a whole number"),
            ("lock_unit=-1", "is not bytes"),
            ("lock_unit=", "is not bytes"),
            ("target_bandwidth=0", "must not be 0"),
        ] {
            let told = machine.read(text).expect_err(text);
            assert!(told.contains(why), "{told}");
        }
    }

    fn values() -> impl Strategy<Value = String> {
        let number = prop_oneof!["[0-9]{1,20}", "[0-9]{0,6}\\.[0-9]{0,6}", "[-+]?[0-9]e[0-9]{1,3}"];
        let suffix = prop_oneof![Just(""), Just("K"), Just("T"), Just("ms"), Just("ns"), Just("x")];
        prop_oneof![(number, suffix).prop_map(|(n, s)| format!("{n}{s}")), any::<String>()]
    }

    fn lines() -> impl Strategy<Value = String> {
        let names: Vec<&str> = Machine::PROPERTIES.iter().map(|(name, _)| *name).collect();
        let pair = (select(names), values()).prop_map(|(name, value)| format!("{name} = {value}"));
        prop_oneof![8 => pair, 1 => any::<String>(), 1 => Just("# nothing".to_owned())]
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic_and_what_it_takes_can_be_simulated(
            lines in proptest::collection::vec(lines(), 0..4),
        ) {
            let Ok(machine) = Machine::described(&lines.join("\n")) else { return Ok(()) };
            for (name, value) in machine.named() {
                let may_be_zero = ["stripe_size", "request_latency", "network_latency"];
                prop_assert!(value.is_finite(), "{} is {}", name, value);
                prop_assert!(value > 0.0 || (value == 0.0 && may_be_zero.contains(&name)));
            }
            if let Ok(nodes) = machine.nodes_for(1000) {
                prop_assert!(nodes >= 1 && nodes as f64 <= machine.nodes);
            }
        }

        #[test]
        fn whole_numbers_come_back(number in 1..=1u64 << 20, size in 1..=1u64 << 40) {
            let text = format!("nodes={number}\nlock_unit = {size} # bytes\n\n");
            let machine = Machine::described(&text).expect("two properties");
            prop_assert_eq!((machine.nodes, machine.lock_unit), (number as f64, size as f64));
        }
    }

    #[test]
    fn a_machine_that_is_too_small_says_so() {
        let machine = Machine::preset("laptop").expect("a preset");
        assert_eq!(machine.nodes_for(8), Ok(1));
        assert!(machine.nodes_for(9).expect_err("too many").contains("need 2 nodes"));
    }
}
