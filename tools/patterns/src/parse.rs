//! The text form of patterns.

use crate::kind::{Kind, Order};
use crate::memory::Memory;
use crate::pattern::Pattern;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// No size or product of sizes of one rank may reach this, so that offsets of many ranks fit into
/// 63 bits.
const LIMIT: u64 = 1 << 42;

/// A number with K, M or G behind it.
fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text} is no number"))?;
    let value = number.checked_mul(1 << shift).filter(|&value| value < LIMIT);
    value.ok_or(format!("{text} is too large"))
}

/// KEY=VALUE pairs, each to be taken once.
struct Fields<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Fields<'a> {
    fn new(texts: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut fields: Vec<(&str, &str)> = Vec::new();
        for text in texts {
            let (key, value) = text.split_once('=').ok_or(format!("{text}: want KEY=VALUE"))?;
            if fields.iter().any(|(other, _)| *other == key) {
                return Err(format!("{key} is given twice"));
            }
            fields.push((key, value));
        }
        Ok(Fields(fields))
    }

    fn optional(&mut self, key: &str) -> Option<&'a str> {
        let index = self.0.iter().position(|(name, _)| *name == key)?;
        Some(self.0.swap_remove(index).1)
    }

    fn text(&mut self, key: &str) -> Result<&'a str, String> {
        self.optional(key).ok_or(format!("{key}= is missing"))
    }

    fn size(&mut self, key: &str) -> Result<u64, String> {
        size(self.text(key)?).map_err(|why| format!("{key}: {why}"))
    }

    fn positive(&mut self, key: &str) -> Result<u64, String> {
        match self.size(key)? {
            0 => Err(format!("{key} must not be 0")),
            value => Ok(value),
        }
    }

    fn finish(self) -> Result<(), String> {
        self.0.first().map_or(Ok(()), |(key, _)| Err(format!("{key} does not belong here")))
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or("");
        let mut fields = Fields::new(parts)?;
        let memory = fields.optional("memory").map_or(Ok(Memory::Contiguous), memory)?;
        let kind = kind(name, &mut fields)?;
        fields.finish()?;
        check(&kind)?;
        check_memory(&kind, memory)?;
        Ok(Pattern { kind, memory })
    }
}

fn kind(name: &str, fields: &mut Fields) -> Result<Kind, String> {
    Ok(match name {
        "contiguous" => Kind::Contiguous { bytes: fields.positive("bytes")? },
        "interleaved" => {
            Kind::Interleaved { piece: fields.positive("piece")?, bytes: fields.positive("bytes")? }
        }
        "strided" => Kind::Strided {
            piece: fields.positive("piece")?,
            hole: fields.positive("hole")?,
            bytes: fields.positive("bytes")?,
        },
        "blocks" => Kind::Blocks {
            array: array(fields.text("array")?)?,
            element: fields.positive("element")?,
            order: match fields.optional("order") {
                None | Some("c") => Order::C,
                Some("fortran") => Order::Fortran,
                Some(other) => return Err(format!("order {other}: want c or fortran")),
            },
        },
        "records" => {
            Kind::Records { record: fields.positive("record")?, bytes: fields.positive("bytes")? }
        }
        "variables" => {
            Kind::Variables { count: fields.positive("count")?, piece: fields.positive("piece")? }
        }
        "columns" => Kind::Columns {
            arrays: fields.positive("arrays")?,
            rows: fields.positive("rows")?,
            width: fields.positive("width")?,
            lead: fields.size("lead")?,
        },
        "random" => Kind::Random {
            slot: fields.positive("slot")?,
            bytes: fields.positive("bytes")?,
            seed: fields.optional("seed").map_or(Ok(1), size)?,
        },
        "opens" => Kind::Opens { count: fields.positive("count")? },
        other => return Err(format!("no pattern is called {other:?}")),
    })
}

fn array(text: &str) -> Result<Vec<u64>, String> {
    let sizes: Vec<u64> = text.split('x').map(size).collect::<Result<_, _>>()?;
    match sizes.len() {
        1..=8 if !sizes.contains(&0) => Ok(sizes),
        _ => Err(format!("array {text}: want 1 to 8 sizes above 0, as in 64x64x32")),
    }
}

fn memory(text: &str) -> Result<Memory, String> {
    Ok(match text.split(':').collect::<Vec<_>>()[..] {
        ["contiguous"] => Memory::Contiguous,
        ["blocks", block, gap] => Memory::Blocks { block: size(block)?, gap: size(gap)? },
        ["split", first, gap] => Memory::Split { first: size(first)?, gap: size(gap)? },
        ["ghost", cells] => Memory::Ghost { cells: size(cells)? },
        _ => return Err(format!("memory {text}: want blocks:N:N, split:N:N or ghost:N")),
    })
}

fn product(numbers: &[u64]) -> Result<u64, String> {
    let whole = numbers.iter().try_fold(1u64, |product, &number| product.checked_mul(number));
    whole.filter(|&product| product < LIMIT).ok_or("the sizes are too large together".into())
}

fn check(kind: &Kind) -> Result<(), String> {
    match kind {
        Kind::Strided { piece, hole, bytes } => product(&[bytes / piece + 1, piece + hole])?,
        Kind::Blocks { array, element, .. } => {
            product(array).and_then(|elements| product(&[elements, *element]))?
        }
        Kind::Variables { count, piece } => product(&[*count, *piece])?,
        Kind::Columns { arrays, rows, width, .. } => product(&[*arrays, *rows, *width])?,
        Kind::Random { slot: 0..4, .. } => return Err("slots have at least 4 bytes".into()),
        Kind::Random { slot, bytes, .. } => product(&[bytes / (slot / 2) + 1, *slot])?,
        Kind::Contiguous { .. } | Kind::Interleaved { .. } | Kind::Records { .. } => 0,
        Kind::Opens { .. } => 0,
    };
    Ok(())
}

fn check_memory(kind: &Kind, memory: Memory) -> Result<(), String> {
    match memory {
        Memory::Contiguous => Ok(()),
        _ if !kind.is_one_call() => Err("several calls take contiguous memory only".into()),
        Memory::Ghost { cells } => match kind {
            Kind::Blocks { array, element, .. } => {
                let local: Vec<u64> = array.iter().map(|size| size + 2 * cells).collect();
                product(&[product(&local)?, *element]).map(drop)
            }
            _ => Err("only blocks have ghost cells".into()),
        },
        Memory::Blocks { block: 0, .. } | Memory::Split { first: 0, .. } => {
            Err("memory: blocks have at least one byte".into())
        }
        Memory::Blocks { block, gap } => {
            // One rank may own all bytes; its blocks and gaps must fit like the bytes themselves.
            product(&[kind.span(1) / block + 1, block + gap]).map(drop)
        }
        Memory::Split { .. } => Ok(()),
    }
}

impl Display for Pattern {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match &self.kind {
            Kind::Contiguous { bytes } => write!(f, "contiguous,bytes={bytes}"),
            Kind::Interleaved { piece, bytes } => {
                write!(f, "interleaved,piece={piece},bytes={bytes}")
            }
            Kind::Strided { piece, hole, bytes } => {
                write!(f, "strided,piece={piece},hole={hole},bytes={bytes}")
            }
            Kind::Blocks { array, element, order } => {
                let sizes: Vec<String> = array.iter().map(u64::to_string).collect();
                let order = if *order == Order::C { "c" } else { "fortran" };
                write!(f, "blocks,array={},element={element},order={order}", sizes.join("x"))
            }
            Kind::Records { record, bytes } => write!(f, "records,record={record},bytes={bytes}"),
            Kind::Variables { count, piece } => write!(f, "variables,count={count},piece={piece}"),
            Kind::Columns { arrays, rows, width, lead } => {
                write!(f, "columns,arrays={arrays},rows={rows},width={width},lead={lead}")
            }
            Kind::Random { slot, bytes, seed } => {
                write!(f, "random,slot={slot},bytes={bytes},seed={seed}")
            }
            Kind::Opens { count } => write!(f, "opens,count={count}"),
        }?;
        match self.memory {
            Memory::Contiguous => Ok(()),
            Memory::Blocks { block, gap } => write!(f, ",memory=blocks:{block}:{gap}"),
            Memory::Split { first, gap } => write!(f, ",memory=split:{first}:{gap}"),
            Memory::Ghost { cells } => write!(f, ",memory=ghost:{cells}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_pattern_are_the_same() {
        for text in [
            "contiguous,bytes=7",
            "interleaved,piece=8,bytes=4096,memory=blocks:64:16",
            "strided,piece=8,hole=9,bytes=4096",
            "blocks,array=4x5x6,element=8,order=fortran,memory=ghost:1",
            "records,record=47008,bytes=1000000",
            "variables,count=200,piece=4096",
            "columns,arrays=3,rows=4,width=5,lead=6,memory=split:6:16",
            "random,slot=64,bytes=4096,seed=9",
            "opens,count=1000",
        ] {
            let pattern: Pattern = text.parse().unwrap();
            assert_eq!(pattern.to_string(), text);
        }
    }

    #[test]
    fn sizes_take_units() {
        let pattern: Pattern = "contiguous,bytes=3M".parse().unwrap();
        assert_eq!(pattern.kind(), &Kind::Contiguous { bytes: 3 << 20 });
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "no pattern is called"),
            ("interleaved,piece=8", "bytes= is missing"),
            ("interleaved,piece=0,bytes=8", "must not be 0"),
            ("contiguous,bytes=8,piece=1", "does not belong"),
            ("contiguous,bytes=8,bytes=8", "twice"),
            ("contiguous,bytes", "KEY=VALUE"),
            ("contiguous,bytes=-1", "no number"),
            ("contiguous,bytes=M", "no number"),
            ("contiguous,bytes=99999999G", "too large"),
            ("contiguous,bytes=99999999999999999999", "no number"),
            ("blocks,array=9000000x9000000,element=8", "too large together"),
            ("blocks,array=4xx,element=8", "no number"),
            ("blocks,array=4x0,element=8", "sizes above 0"),
            ("blocks,array=4x4,element=8,order=up", "want c or fortran"),
            ("contiguous,bytes=8,memory=ghost:1", "only blocks"),
            ("records,record=8,bytes=64,memory=blocks:4:4", "contiguous memory only"),
            ("contiguous,bytes=8,memory=blocks:0:4", "at least one byte"),
            ("contiguous,bytes=1G,memory=blocks:1:1G", "too large together"),
            ("random,slot=2,bytes=8", "at least 4"),
            ("strided,piece=1,hole=4G,bytes=4G", "too large together"),
        ] {
            let why = text.parse::<Pattern>().unwrap_err();
            assert!(why.contains(reason), "{text:?}: {why}");
        }
    }
}
