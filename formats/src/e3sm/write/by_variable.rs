//! A subfile in PnetCDF's layout: a netCDF file with decomposed variables blob behind blob.

use super::content::{Content, Sink};
use super::crew;
use super::derive::Use;
use super::moves::Mover;
use super::out::Out;
use super::plan::Plan;
use super::slabs::{Source, copy_decomposed, copy_whole};
use super::tables::Tables;
use super::{Step, Stop};
use crate::cdf::{Endian, Layout};
use crate::e3sm::headers::TABLES;

/// A plan that cannot be carried out, which [`Plan::of`] refuses.
fn stop(why: impl ToString) -> Stop {
    Stop::Unsuited(why.to_string())
}

impl Plan {
    /// Writes a subfile, its parts in the order of the file.
    pub(super) fn write_by_variable(
        &self,
        subfile: usize,
        content: &dyn Content,
        sink: &dyn Sink,
        out: &mut Out<'_>,
    ) -> Step<()> {
        let header = self.placed_head(subfile).map_err(stop)?;
        let layout = Layout::of(&header).map_err(stop)?;
        sink.set_len(layout.end(self.records).map_err(stop)?)?;
        out.at(0)?;
        out.put(&header.write().map_err(stop)?, 0);
        for (k, map) in self.maps.iter().enumerate() {
            let begin = |table: usize| layout.slots[k * TABLES.len() + table].begin;
            let tables = Tables { map, group: &self.groups[subfile], endian: Endian::Big };
            tables.write_columns(std::array::from_fn(begin), out)?;
        }
        out.flush()?;
        let begun = self.begun(content);
        let slabs = [false, true].into_iter().flat_map(|records| self.slabs(records, begun));
        let source = Source { content, mover: Mover::new(content, sink) };
        crew::each(sink, slabs, |slab, out| self.write_slab(subfile, slab, &layout, &source, out))
    }

    /// The parts of variables with or without `records`, in the `begun` records, and their bytes in
    /// the file that the set is made of; in the order of the subfile.
    fn slabs(&self, records: bool, begun: u64) -> impl Iterator<Item = ((usize, u64), u64)> + Send {
        let slots = self.layout.slots.iter().enumerate();
        let variables: Vec<(usize, u64)> = slots
            .filter(|(_, slot)| slot.records == records)
            .map(|(id, slot)| (id, slot.size))
            .collect();
        let count = if records { begun } else { 1 };
        // Without variables there is nothing in any record.
        (0..if variables.is_empty() { 0 } else { count }).flat_map(move |record| {
            let slab = move |(id, size): (usize, u64)| ((id, record), size);
            variables.clone().into_iter().map(slab)
        })
    }

    fn write_slab(
        &self,
        subfile: usize,
        (variable, record): (usize, u64),
        layout: &Layout,
        source: &Source<'_>,
        out: &mut Out<'_>,
    ) -> Step<()> {
        let slab = self.slab(variable, record)?;
        let begin = layout.offset_of(self.maps.len() * TABLES.len() + variable, record);
        let mut to = begin.ok_or_else(|| stop("a record beyond every file"))?;
        match self.uses[variable] {
            Use::Unwritten => {}
            Use::Whole => copy_whole(source.content, slab, to, out)?,
            Use::Decomposed(k) => {
                let map = &self.maps[k];
                let blobs = self.groups[subfile].iter().map(|writer| {
                    let begin = to;
                    to += map.count(*writer) * slab.element;
                    (*writer, begin)
                });
                copy_decomposed(source, slab, map, blobs, out)?;
            }
        }
        Ok(())
    }
}
