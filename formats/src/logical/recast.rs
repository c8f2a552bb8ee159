//! The same dimensions, attributes and values in another version of the format.

use super::writers::Writers;
use super::{Cache, Description, Logical, Slab, Source};
use crate::cdf::{Alignment, Records, Version};
use crate::error::{Error, Result};
use std::sync::Arc;

/// A file with its variables in other places.
struct Recast(Logical);

impl Logical {
    /// A file of CDF-5 that holds the same, its variables where PnetCDF puts them.
    ///
    /// # Errors
    ///
    /// If it were larger than any file.
    pub fn into_cdf5(self) -> Result<Logical> {
        let mut header = self.header.clone();
        (header.version, header.records) = (Version::Data64, Records::Known(self.records));
        let told = |why: String| Error::corrupt(self.name.clone(), why);
        header.assign(Alignment::default()).map_err(|why| told(why.to_string()))?;
        let (name, records) = (self.name.clone(), self.records);
        // The other file has a cache of its own.
        let cache = Arc::new(Cache::new(0));
        Logical::new(name, header, records, Box::new(Recast(self)), &cache)
    }
}

impl Source for Recast {
    fn fill(&self, slab: Slab, start: u64, out: &mut [u8]) -> Result<()> {
        self.0.source.fill(slab, start, out)
    }

    fn is_direct(&self, variable: usize) -> bool {
        self.0.source.is_direct(variable)
    }

    fn tile(&self) -> u64 {
        self.0.source.tile()
    }

    fn describe(&self) -> Description {
        self.0.source.describe()
    }

    fn is_unchanged(&self) -> bool {
        self.0.source.is_unchanged()
    }

    fn writers(&self) -> Option<Writers> {
        self.0.source.writers()
    }
}
