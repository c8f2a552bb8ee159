//! Where the data of each variable lie: begins and sizes, checked, and made by PnetCDF's rules.

use super::header::{Header, Records, Version};
use super::padded;
use super::parse::Error;

/// Where a variable's data lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The first byte, of the first record if it has records.
    pub begin: u64,
    /// Bytes, of one record if it has records; without padding.
    pub size: u64,
    /// Bytes of an element.
    pub element: u64,
    /// Whether it has records.
    pub records: bool,
}

/// Where all variables lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the header.
    pub header: u64,
    /// The slot of each variable.
    pub slots: Vec<Slot>,
    /// Variables without records, in the order of the file.
    pub(super) fixed: Vec<usize>,
    /// Variables with records, in the order within a record.
    pub(super) recorded: Vec<usize>,
    /// Where records begin; the end of everything if there are none.
    pub records_begin: u64,
    /// Bytes from one record to the next; zero without records.
    pub record_size: u64,
}

/// Borders at which data begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// The border of the first variable.
    pub variables: u64,
    /// The border of the first record.
    pub records: u64,
}

impl Default for Alignment {
    /// The defaults of PnetCDF.
    fn default() -> Self {
        Alignment { variables: 512, records: 4 }
    }
}

fn corrupt<T>(what: String) -> Result<T, Error> {
    Err(Error::Corrupt { offset: 0, what })
}

/// Bytes of each variable, of one record if it has records.
fn sizes(header: &Header) -> Result<Vec<u64>, Error> {
    let size = |variable: &super::Variable| {
        let elements = header.elements(variable);
        let size = elements.and_then(|elements| elements.checked_mul(variable.kind.size()));
        match size.filter(|size| *size < 1 << 63) {
            Some(size) => Ok(size),
            None => corrupt(format!("{} is larger than any file", variable.name)),
        }
    };
    header.variables.iter().map(size).collect()
}

/// Bytes from one record to the next: each variable is filled up unless it is the only one.
fn record_size(header: &Header, sizes: &[u64]) -> Result<u64, Error> {
    let with_records = header.variables.iter().zip(sizes);
    let mut sizes =
        with_records.filter(|(variable, _)| header.has_records(variable)).map(|(_, size)| *size);
    let (Some(first), second) = (sizes.next(), sizes.next()) else { return Ok(0) };
    let Some(second) = second else { return Ok(first) };
    let sum = [first, second]
        .into_iter()
        .chain(sizes)
        .try_fold(0, |sum: u64, size| sum.checked_add(padded(size)?));
    sum.map_or_else(|| corrupt("a record is larger than any file".into()), Ok)
}

impl Layout {
    /// A file without a header: so many single bytes.
    pub(crate) fn of_bytes(size: u64) -> Self {
        Layout {
            header: 0,
            slots: vec![Slot { begin: 0, size, element: 1, records: false }],
            fixed: vec![0],
            recorded: Vec::new(),
            records_begin: size,
            record_size: 0,
        }
    }

    /// The layout that follows from a header.
    ///
    /// # Errors
    ///
    /// If variables overlap each other or the header, or lie beyond the largest offset.
    pub fn of(header: &Header) -> Result<Self, Error> {
        let sizes = sizes(header)?;
        let slots: Vec<Slot> = header
            .variables
            .iter()
            .zip(&sizes)
            .map(|(variable, size)| Slot {
                begin: variable.begin,
                size: *size,
                element: variable.kind.size(),
                records: header.has_records(variable),
            })
            .collect();
        let in_order = |records: bool| {
            let mut ids: Vec<usize> =
                (0..slots.len()).filter(|id| slots[*id].records == records).collect();
            ids.sort_by_key(|id| slots[*id].begin);
            ids
        };
        let (fixed, recorded) = (in_order(false), in_order(true));
        let record_size = record_size(header, &sizes)?;
        let mut layout =
            Layout { header: header.size(), slots, fixed, recorded, records_begin: 0, record_size };
        layout.check(header)?;
        Ok(layout)
    }

    /// Nothing overlaps; finds where records begin.
    fn check(&mut self, header: &Header) -> Result<(), Error> {
        let name = |id: usize| &header.variables[id].name;
        let mut end = self.header;
        for id in self.fixed.iter().chain(&self.recorded) {
            let slot = self.slots[*id];
            if slot.begin < end {
                return corrupt(format!(
                    "{} begins at {}, before {end}, the end of what lies before it",
                    name(*id),
                    slot.begin
                ));
            }
            match slot.begin.checked_add(slot.size).filter(|end| *end < 1 << 63) {
                Some(next) => end = next,
                None => return corrupt(format!("{} ends beyond every file", name(*id))),
            }
        }
        self.records_begin = self.recorded.first().map_or(end, |id| self.slots[*id].begin);
        if self.record_size > 0 && end - self.records_begin > self.record_size {
            let size = self.record_size;
            return corrupt(format!(
                "the variables of a record are further apart than {size} bytes"
            ));
        }
        Ok(())
    }

    /// The end of the last variable of the last record.
    ///
    /// # Errors
    ///
    /// If that is beyond the largest offset.
    pub fn end(&self, records: u64) -> Result<u64, Error> {
        let last = |ids: &[usize]| {
            ids.last().map_or(self.header, |id| self.slots[*id].begin + self.slots[*id].size)
        };
        if records == 0 || self.recorded.is_empty() {
            return Ok(last(&self.fixed));
        }
        let before = (records - 1).checked_mul(self.record_size);
        match before.and_then(|before| before.checked_add(last(&self.recorded))) {
            Some(end) if end < 1 << 63 => Ok(end),
            _ => corrupt(format!("{records} records end beyond every file")),
        }
    }

    /// How many records a file of this size has at least begun.
    #[must_use]
    pub fn begun_records(&self, size: u64) -> u64 {
        if self.record_size == 0 {
            return 0;
        }
        size.saturating_sub(self.records_begin).div_ceil(self.record_size)
    }

    /// How many records there are in a file of this size.
    #[must_use]
    pub fn records(&self, told: Records, size: u64) -> u64 {
        match told {
            Records::Known(number) => number,
            Records::Streaming if self.record_size == 0 => 0,
            Records::Streaming => size.saturating_sub(self.records_begin) / self.record_size,
        }
    }
}

impl Header {
    /// Gives each variable its place as PnetCDF does, in the order of their definition.
    ///
    /// # Errors
    ///
    /// If the file were larger than any file.
    pub fn assign(&mut self, alignment: Alignment) -> Result<(), Error> {
        let sizes = sizes(self)?;
        let up = |number: u64, to: u64| match number.checked_next_multiple_of(to.max(1)) {
            Some(number) if number < 1 << 63 => Ok(number),
            _ => corrupt("the variables end beyond every file".into()),
        };
        let mut end = up(self.size(), alignment.variables.max(4))?;
        for records in [false, true] {
            if records {
                end = up(up(end, 4)?, alignment.records)?;
            }
            for (id, size) in sizes.iter().enumerate() {
                if self.has_records(&self.variables[id]) == records {
                    let variable = &mut self.variables[id];
                    variable.begin = up(end, 4)?;
                    let size = up(*size, 4)?;
                    let most =
                        if self.version == Version::Data64 { u64::MAX } else { (1 << 32) - 4 };
                    variable.told_size = if size > most { (1 << 32) - 1 } else { size };
                    end = up(variable.begin + size, 4)?;
                }
            }
        }
        Ok(())
    }
}
