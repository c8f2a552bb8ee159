//! Operations of one rank while no other one is in a call of the file.

use super::{Rank, memory, must};
use crate::oracle::pattern;
use crate::program::Own;
use agg_core::datatype::Datatype;
use agg_core::file::{Call, Position};
use agg_core::stage;
use agg_core::transport::ThreadTransport;

impl Rank {
    /// Reads or writes through the handle of this rank alone.
    pub(super) fn alone(&self, own: &Own, told: Option<&Vec<Option<u8>>>) -> Result<(), String> {
        if self.own.get().is_none() {
            let opened = self.open(ThreadTransport::group(1).remove(0))?;
            let _ = self.own.set(opened);
        }
        let file = self.own.get().ok_or("no handle")?;
        let mut bytes: Vec<u8> = (0..own.len as usize).map(|i| pattern(own.salt, i)).collect();
        let outcome = self.wait(file.start(Call {
            operation: "alone",
            direction: own.direction,
            position: Position::Explicit(own.offset as i64),
            collective: false,
            memory: Ok(memory(bytes.as_mut_ptr(), Datatype::bytes(own.len), 1)),
        }));
        outcome.result.map_err(|error| error.to_string())?;
        match told {
            None => must(outcome.bytes == own.len, || format!("{} bytes alone", outcome.bytes)),
            Some(told) => certain(&bytes[..outcome.bytes as usize], told),
        }
    }

    /// Looks at the file by system calls, and says before that it does if writes are staged.
    pub(super) fn look(&self, stays: bool, told: &[Option<u8>]) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        let path = self.name.strip_prefix("testfs:").unwrap_or(&self.name);
        if let Some(home) = &self.home {
            let target = std::fs::File::open(path).map_err(failed)?;
            stage::show(home, target, stays).map_err(|error| error.to_string())?;
        }
        certain(&std::fs::read(path).map_err(failed)?, told)
    }
}

/// Compares bytes with the expected ones, as far as they are certain.
fn certain(bytes: &[u8], told: &[Option<u8>]) -> Result<(), String> {
    must(bytes.len() == told.len(), || format!("{} bytes, not {}", bytes.len(), told.len()))?;
    let wrong = (0..told.len()).find(|at| told[*at].is_some_and(|byte| byte != bytes[*at]));
    must(wrong.is_none(), || format!("byte {wrong:?} of what was read"))
}
