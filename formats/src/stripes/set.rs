//! Subfiles together: the file that they stand for.

use crate::error::{Error, Kind, Result};
use crate::files::Files;
use crate::logical::{Description, FileFacts, Logical, Options, Slab, Source};
use std::sync::Arc;

/// Bytes that are read at a time.
const TILE: u64 = 8 << 20;

struct Stripes {
    files: Arc<dyn Files>,
    /// Bytes of a stripe.
    stripe: u64,
    /// Bytes of each subfile; none if it is missing.
    sizes: Vec<Option<u64>>,
    notes: Vec<String>,
}

/// The file that subfiles stand for: those behind the first of `files`, which is the stub.
///
/// # Errors
///
/// If a subfile is missing, unless `options` allow that.
pub(crate) fn open(
    files: Arc<dyn Files>,
    name: &str,
    (stripe, count): (u64, usize),
    options: &Options,
) -> Result<Logical> {
    let (mut sizes, mut notes) = (Vec::new(), Vec::new());
    for file in 1..=count {
        sizes.push(match files.size(file) {
            Ok(size) => Some(size),
            Err(why) if options.partial && !matches!(why.kind, Kind::System(_)) => {
                notes.push(why.to_string());
                None
            }
            Err(why) => return Err(why),
        });
    }
    let ends = sizes.iter().enumerate().map(|(number, size)| {
        let size = size.unwrap_or(0);
        end_of(number as u64, size, stripe, count as u64)
    });
    let size = ends.collect::<Option<Vec<u64>>>().and_then(|ends| ends.into_iter().max());
    let size = size.filter(|size| *size < 1 << 63);
    let size = size.ok_or_else(|| Error::corrupt(name, "its subfiles are larger than any file"))?;
    let source = Stripes { files, stripe, sizes, notes };
    Ok(Logical::of_bytes(name.into(), size, Box::new(source), &options.cache))
}

/// Where the last byte of a subfile of so many bytes ends in the file.
fn end_of(number: u64, size: u64, stripe: u64, count: u64) -> Option<u64> {
    let Some(last) = size.checked_sub(1) else { return Some(0) };
    let before = (last / stripe).checked_mul(count)?.checked_add(number)?;
    before.checked_mul(stripe)?.checked_add(last % stripe + 1)
}

impl Source for Stripes {
    /// Bytes behind the end of a subfile were never written.
    fn fill(&self, _: Slab, start: u64, out: &mut [u8]) -> Result<()> {
        let count = self.sizes.len() as u64;
        let mut done = 0;
        while done < out.len() {
            let at = start + done as u64;
            let (number, within) = (at / self.stripe, at % self.stripe);
            let left = out.len() - done;
            let len = usize::try_from(self.stripe - within).unwrap_or(left).min(left);
            let (subfile, place) =
                ((number % count) as usize, number / count * self.stripe + within);
            let there = self.sizes[subfile].unwrap_or(0).saturating_sub(place);
            let there = usize::try_from(there).unwrap_or(len).min(len);
            let (data, rest) = out[done..done + len].split_at_mut(there);
            rest.fill(0);
            if !data.is_empty() {
                self.files.read(subfile + 1, data, place)?;
            }
            done += len;
        }
        Ok(())
    }

    fn is_direct(&self, _: usize) -> bool {
        true
    }

    fn tile(&self) -> u64 {
        TILE
    }

    fn is_unchanged(&self) -> bool {
        self.files.is_unchanged()
    }

    fn describe(&self) -> Description {
        let each = self.sizes.iter().enumerate();
        let facts = |(number, size): (usize, &Option<u64>)| {
            let name = self.files.name(number + 1);
            Some(FileFacts { name, size: (*size)?, blobs: 0, records: 0 })
        };
        Description {
            kind: "HDF5 subfiles",
            files: each.filter_map(facts).collect(),
            notes: self.notes.clone(),
            ..Description::default()
        }
    }
}
