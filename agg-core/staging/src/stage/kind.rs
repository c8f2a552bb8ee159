//! The kind of storage for files with staged small writes.

use super::staged::StagedFile;
use super::target::target_of;
use super::{Home, Losing, show};
use aggio_base::Result;
use aggio_comm::transport::Offer;
use aggio_comm::workers::Workers;
use aggio_store::driver::table::{AfterDelete, Drivers, Kind};
use aggio_store::driver::{Driver, OpenHow};
use std::path::Path;

/// The kind of storage: ordinary files, opened with terms of staging.
#[derive(Debug)]
pub struct Staged {
    home: Home,
    workers: Workers,
}

impl Staged {
    /// Files that are staged in `home`.
    pub fn new(home: Home) -> Self {
        Self { home, workers: Workers::default() }
    }

    /// With threads that drain while the program computes.
    pub fn with_workers(self, workers: Workers) -> Self {
        Self { workers, ..self }
    }

    /// The file `base`, which `how` opened, with its stage.
    fn with_stage(&self, base: Box<dyn Driver>, how: &OpenHow) -> Result<Box<dyn Driver>> {
        let Some(terms) = how.staging else { return Ok(base) };
        let Some(target) = target_of(&*base, &how.path)? else { return Ok(base) };
        if !terms.shared {
            return show(&self.home, target, true).map(|()| base);
        }
        let file = StagedFile::new(base, target, how, terms, &self.home, &self.workers)?;
        // Where nothing is staged and nothing would be, the file is an ordinary one.
        if file.begin()? {
            return Ok(Box::new(file));
        }
        file.into_base()
    }
}

impl Kind for Staged {
    fn name(&self) -> &'static str {
        "stage"
    }

    fn claims(&self, _: &Drivers, how: &OpenHow) -> Result<bool> {
        Ok(how.staging.is_some())
    }

    fn adopts(&self, how: &OpenHow) -> bool {
        how.staging.is_some()
    }

    fn sees(&self, _: &OpenHow) -> bool {
        false
    }

    fn open(&self, drivers: &Drivers, how: &OpenHow) -> Result<Box<dyn Driver>> {
        match drivers.ordinary().open(drivers, how) {
            Ok(file) => self.with_stage(file, how),
            // Files of other kinds of storage are not staged.
            Err(error) => drivers.open_instead(how, error),
        }
    }

    fn adopt(&self, drivers: &Drivers, how: &OpenHow, offer: Offer) -> Result<Box<dyn Driver>> {
        self.with_stage(drivers.ordinary().adopt(drivers, how, offer)?, how)
    }

    fn delete(&self, drivers: &Drivers, path: &str, rank: usize) -> Result<()> {
        drivers.ordinary().delete(drivers, path, rank)
    }

    fn before_delete(&self, path: &str) -> Option<AfterDelete> {
        let losing = Losing::named(&self.home, Path::new(path))?;
        Some(Box::new(|| losing.lost()))
    }
}
