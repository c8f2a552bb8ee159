//! From the bytes that each writer wrote to the decompositions of the variables.

use super::content::{Content, Owned, first_nonzero};
use super::maps::{Found, Mapped, Run, Span};
use super::{Step, unsuited};
use crate::cdf::{Header, Layout, Piece, Place, Variable};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// How a variable is distributed among writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It was never written: each subfile has zeros.
    Unwritten,
    /// One writer: each subfile has all of it.
    Whole,
    /// As this decomposition says.
    Decomposed(usize),
}

/// The writers of a variable, in each of the records that were looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// All of it, by this writer.
    By(u32),
    /// As this decomposition says.
    As(usize),
}

/// A variable in one record, while its writers are being found.
struct Open {
    variable: usize,
    record: u64,
    spans: Vec<Span>,
}

/// Finds the writers in a file, from its beginning to its end.
pub(super) struct Derive<'a> {
    content: &'a dyn Content,
    header: &'a Header,
    layout: &'a Layout,
    records: u64,
    writers: u32,
    open: Option<Open>,
    /// For each variable its writers, and the number of records that were seen.
    seen: Vec<Option<(Seen, u64)>>,
    found: HashMap<Rc<Found>, usize>,
    /// The dimensions that were seen first of each list of lengths: others of the same share
    /// decompositions with them.
    shapes: HashMap<Vec<u64>, Vec<usize>>,
    /// The one that was seen last, which most variables share.
    last: Option<(Rc<Found>, usize)>,
    end: u64,
    /// The piece of the bytes that are looked at.
    here: Piece,
}

impl<'a> Derive<'a> {
    pub(super) fn new(
        content: &'a dyn Content,
        header: &'a Header,
        layout: &'a Layout,
        records: u64,
        writers: u32,
    ) -> Self {
        Derive {
            content,
            header,
            layout,
            records,
            writers,
            open: None,
            seen: vec![None; header.variables.len()],
            found: HashMap::new(),
            shapes: HashMap::new(),
            last: None,
            end: 0,
            here: layout.piece(0),
        }
    }

    /// The use of each variable, and all decompositions.
    pub(super) fn run(
        mut self,
        owned: &mut dyn Iterator<Item = Result<Owned>>,
    ) -> Step<(Vec<Use>, Vec<Found>)> {
        for one in owned {
            self.add(one?)?;
        }
        self.close()?;
        let mut uses = Vec::new();
        for (variable, seen) in self.header.variables.iter().zip(&self.seen) {
            uses.push(self.used(variable, *seen)?);
        }
        self.last = None;
        let mut found: Vec<(Rc<Found>, usize)> = self.found.into_iter().collect();
        found.sort_unstable_by_key(|(_, number)| *number);
        Ok((uses, found.into_iter().map(|(found, _)| Rc::unwrap_or_clone(found)).collect()))
    }

    fn add(&mut self, owned: Owned) -> Step<()> {
        let Owned { range, writer } = owned;
        if range.start < self.end || range.end < range.start || writer >= self.writers {
            let what = format!("bytes {range:?} of writer {writer} are out of order");
            return Err(Error::corrupt("the list of writers", what).into());
        }
        self.end = range.end;
        let mut start = range.start;
        while start < range.end {
            // Most bytes belong to the same piece as those before.
            if !self.here.range.contains(&start) {
                self.here = self.layout.piece(start);
            }
            let end = range.end.min(self.here.range.end);
            match self.here.place {
                Place::Header => {}
                Place::Data { variable, record, byte } if self.has(variable, record) => {
                    let begin = self.here.range.start - byte;
                    self.data(variable, record, start - begin..end - begin, writer)?;
                }
                Place::Pad | Place::Data { .. } => self.nothing(start..end)?,
            }
            start = end;
        }
        Ok(())
    }

    fn has(&self, variable: usize, record: u64) -> bool {
        !self.layout.slots[variable].records || record < self.records
    }

    /// Bytes that belong to no variable must be zeros: the set has none of them.
    fn nothing(&self, range: Range<u64>) -> Step<()> {
        let range = range.start..range.end.min(self.content.size());
        match first_nonzero(self.content, range)? {
            None => Ok(()),
            Some(at) => unsuited(match self.layout.piece(at).place {
                Place::Data { variable, record, .. } => {
                    let name = &self.header.variables[variable].name;
                    format!(
                        "{name}: byte {at} is in record {record}, but there are {}",
                        self.records
                    )
                }
                _ => {
                    let before = self.before(at);
                    format!("byte {at}, behind {before}, belongs to no variable and is not zero")
                }
            }),
        }
    }

    /// The name of the variable before a byte that belongs to nothing, or else the header.
    fn before(&self, at: u64) -> String {
        let behind =
            at.checked_sub(self.layout.records_begin).filter(|_| self.layout.record_size > 0);
        let shift = behind.map_or(0, |bytes| bytes - bytes % self.layout.record_size);
        let slots = self.layout.slots.iter().zip(&self.header.variables);
        let before = slots.filter(|(slot, _)| slot.begin <= at - shift);
        let last = before.max_by_key(|(slot, _)| slot.begin);
        last.map_or_else(|| "the header".into(), |(_, variable)| variable.name.to_string())
    }

    fn data(&mut self, variable: usize, record: u64, bytes: Range<u64>, writer: u32) -> Step<()> {
        let is_open = |open: &Open| (open.variable, open.record) == (variable, record);
        if !self.open.as_ref().is_some_and(is_open) {
            self.close()?;
        }
        let size = self.layout.slots[variable].element;
        // An element that a writer wrote in part belongs to that writer: nobody else wrote the
        // rest.
        let elements = bytes.start / size..bytes.end.div_ceil(size);
        let is_scalar = self.is_scalar(variable);
        let open = self.open.get_or_insert(Open { variable, record, spans: Vec::new() });
        match open.spans.last_mut() {
            Some(last) if last.writer == writer && elements.start <= last.elements.end => {
                last.elements.end = elements.end;
            }
            // The writer of a variable of one element does not matter.
            Some(last) if elements.start < last.elements.end && !is_scalar => {
                let name = &self.header.variables[variable].name;
                let (one, at) = (last.writer, elements.start);
                return unsuited(format!(
                    "{name}: writers {one} and {writer} wrote parts of element {at}"
                ));
            }
            _ => open.spans.push(Span { elements, writer }),
        }
        Ok(())
    }

    /// Whether a variable has one element and no dimensions but records.
    fn is_scalar(&self, variable: usize) -> bool {
        self.header.shape(&self.header.variables[variable]).is_empty()
    }

    /// All writers of a variable's part of a record are known.
    fn close(&mut self) -> Step<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        if self.is_scalar(open.variable) {
            return Ok(());
        }
        let seen = self.recognised(&open)?;
        let count = match self.seen[open.variable] {
            None => 1,
            Some((before, count)) if before == seen => count + 1,
            Some(_) => return differs(&self.header.variables[open.variable]),
        };
        self.seen[open.variable] = Some((seen, count));
        Ok(())
    }

    fn recognised(&mut self, open: &Open) -> Step<Seen> {
        let variable = &self.header.variables[open.variable];
        let elements = self.header.elements(variable).unwrap_or(u64::MAX);
        if let [all] = open.spans.as_slice()
            && all.elements == (0..elements)
        {
            return Ok(Seen::By(all.writer));
        }
        if elements > i32::MAX as u64 {
            let name = &variable.name;
            return unsuited(format!(
                "{name}: {elements} elements, the convention has numbers of 31 bits"
            ));
        }
        // No element has a larger number than 31 bits tell.
        let mapped = |span: &Span| -> Mapped {
            let len = (span.elements.end - span.elements.start) as u32;
            (Run { to: span.elements.start as u32, len }, span.writer)
        };
        let records = usize::from(self.header.has_records(variable));
        let own = || variable.dimensions[records..].to_vec();
        let dimensions = self.shapes.entry(self.header.shape(variable)).or_insert_with(own).clone();
        let found = Found { dimensions, runs: open.spans.iter().map(mapped).collect() };
        if let Some((last, number)) = &self.last
            && **last == found
        {
            return Ok(Seen::As(*number));
        }
        let (found, next) = (Rc::new(found), self.found.len());
        let number = *self.found.entry(Rc::clone(&found)).or_insert(next);
        self.last = Some((found, number));
        Ok(Seen::As(number))
    }

    /// The use of a variable, by its writers in all records.
    fn used(&self, variable: &Variable, seen: Option<(Seen, u64)>) -> Step<Use> {
        let records = if self.header.has_records(variable) { self.records } else { 1 };
        match seen {
            None if self.header.shape(variable).is_empty() => Ok(Use::Whole),
            None => Ok(Use::Unwritten),
            Some((_, count)) if count != records => differs(variable),
            Some((Seen::By(_), _)) => Ok(Use::Whole),
            Some((Seen::As(k), _)) => Ok(Use::Decomposed(k)),
        }
    }
}

fn differs<T>(variable: &Variable) -> Step<T> {
    let name = &variable.name;
    unsuited(format!("{name}: not every record was written by the same writers at the same places"))
}
