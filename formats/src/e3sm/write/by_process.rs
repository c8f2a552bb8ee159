//! A subfile in HDF5: a dataset with the header, and one with blob behind blob, each with its
//! tables and then all variables.

use super::content::{Content, Sink};
use super::derive::Use;
use super::moves::Mover;
use super::out::Out;
use super::plan::Plan;
use super::slabs::{Source, copy_decomposed, copy_whole};
use super::tables::Tables;
use super::{Step, Stop, unsuited};
use crate::hdf5;

impl Plan {
    /// Writes a subfile: tables first, then variable by variable, with the part of each blob.
    pub(super) fn write_by_process(
        &self,
        subfile: usize,
        content: &dyn Content,
        sink: &dyn Sink,
        out: &mut Out<'_>,
    ) -> Step<()> {
        let header = self.placed_head(subfile).map_err(Stop::Unsuited)?;
        let header = header.write_as(self.endian());
        let header = header.map_err(|why| Stop::Unsuited(why.to_string()))?;
        let all = (0..self.groups[subfile].len()).map(|blob| self.blob_bytes(subfile, blob));
        let Some(blobs) = all.collect::<Option<Vec<u64>>>() else {
            return unsuited("a subfile beyond every file");
        };
        let Some(data) = blobs.iter().try_fold(0_u64, |sum, blob| sum.checked_add(*blob)) else {
            return unsuited("a subfile beyond every file");
        };
        let sizes = [("header_blob", header.len() as u64), ("data_blob", data)];
        let Some(made) = hdf5::container(&sizes) else {
            return unsuited("a subfile beyond every file");
        };
        sink.set_len(made.size)?;
        out.at(0)?;
        out.put(&made.head, 0);
        out.at(made.begins[0])?;
        out.put(&header, 0);
        let mut places: Vec<u64> = blobs
            .iter()
            .scan(made.begins[1], |next, size| {
                let begin = *next;
                *next += size;
                Some(begin)
            })
            .collect();
        self.write_tables(subfile, &mut places, out)?;
        // Text is copied as it is, numbers are turned round.
        let source = Source { content, mover: Mover::new(content, sink) };
        self.write_variables(subfile, &mut places, &source, out)
    }

    fn tables(&self, subfile: usize) -> impl Iterator<Item = Tables<'_>> {
        let (group, endian) = (&self.groups[subfile], self.endian());
        self.maps.iter().map(move |map| Tables { map, group, endian })
    }

    fn records_of(&self, variable: usize) -> u64 {
        if self.layout.slots[variable].records { self.records } else { 1 }
    }

    /// Bytes of a blob's part of a variable, in one record.
    fn part(&self, subfile: usize, blob: usize, variable: usize) -> u64 {
        let slot = self.layout.slots[variable];
        match self.uses[variable] {
            Use::Decomposed(k) => self.maps[k].count(self.groups[subfile][blob]) * slot.element,
            Use::Whole | Use::Unwritten if blob == 0 => slot.size,
            Use::Whole | Use::Unwritten => 0,
        }
    }

    /// Bytes of a blob.
    fn blob_bytes(&self, subfile: usize, blob: usize) -> Option<u64> {
        let tables = self.tables(subfile).map(|tables| Some(tables.row_bytes(blob)));
        let variables = (0..self.uses.len()).map(|variable| {
            self.part(subfile, blob, variable).checked_mul(self.records_of(variable))
        });
        tables.chain(variables).try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?))
    }

    /// Writes all tables; `places` are where the blobs begin, and then where their variables do.
    fn write_tables(&self, subfile: usize, places: &mut [u64], out: &mut Out<'_>) -> Step<()> {
        for tables in self.tables(subfile) {
            tables.write_rows(places, out)?;
            for (blob, place) in places.iter_mut().enumerate() {
                *place += tables.row_bytes(blob);
            }
        }
        Ok(())
    }

    fn write_variables(
        &self,
        subfile: usize,
        places: &mut [u64],
        source: &Source<'_>,
        out: &mut Out<'_>,
    ) -> Step<()> {
        let content = source.content;
        for (variable, used) in self.uses.iter().enumerate() {
            let records = self.records_of(variable);
            let begun = records.min(self.begun(content).max(1));
            for record in 0..begun {
                let slab = self.slab(variable, record)?;
                match used {
                    Use::Unwritten => {}
                    Use::Whole => copy_whole(content, slab, places[0], out)?,
                    Use::Decomposed(k) => {
                        let blobs =
                            self.groups[subfile].iter().copied().zip(places.iter().copied());
                        copy_decomposed(source, slab, &self.maps[*k], blobs, out)?;
                    }
                }
                self.advance(subfile, variable, 1, places);
            }
            self.advance(subfile, variable, records - begun, places);
        }
        Ok(())
    }

    /// Moves the places behind so many records of a variable.
    fn advance(&self, subfile: usize, variable: usize, records: u64, places: &mut [u64]) {
        for (blob, place) in places.iter_mut().enumerate() {
            // Inside of the file, which has a known size.
            *place += self.part(subfile, blob, variable) * records;
        }
    }
}
