//! The options of a rule in messages.

use super::codec::{Reader, Writer, bad, flags};
use crate::registry::Options;
use aggio_config::settings::couple::{Full, Persist, Pick, WriterDeath};
use std::io;

pub(crate) fn write_options(out: &mut Writer, options: &Options) {
    let pick = u8::from(options.pick == Pick::Latest);
    let death = match options.death {
        WriterDeath::Error => 0,
        WriterDeath::Wait => 1,
        WriterDeath::File => 2,
    };
    let persist = match options.persist {
        Persist::No => 0,
        Persist::Yes => 1,
        Persist::After => 2,
    };
    let ready = [options.at_sync, options.at_step, options.records_now];
    let drops = options.full == Full::Drop;
    out.byte(persist).byte(drops.into()).number(options.budget);
    out.byte(pick).byte(death).byte(flags(&ready)).number(options.keep.into());
    out.byte(options.survives.into());
    out.bytes(options.spill.as_deref().unwrap_or_default().as_bytes());
}

pub(crate) fn read_options(from: &mut Reader<'_>) -> io::Result<Options> {
    let persist = match from.byte()? {
        0 => Persist::No,
        1 => Persist::Yes,
        2 => Persist::After,
        _ => return Err(bad("what it says of storing is unknown")),
    };
    let [drops] = from.flags()?;
    let full = if drops { Full::Drop } else { Full::Wait };
    let budget = from.number()?;
    let pick = match from.byte()? {
        0 => Pick::Next,
        1 => Pick::Latest,
        _ => return Err(bad("its choice of a generation is unknown")),
    };
    let death = match from.byte()? {
        0 => WriterDeath::Error,
        1 => WriterDeath::Wait,
        2 => WriterDeath::File,
        _ => return Err(bad("what it says of a writer's death is unknown")),
    };
    let [at_sync, at_step, records_now] = from.flags()?;
    let keep = u32::try_from(from.number()?).map_err(|_| bad("its number to keep is too large"))?;
    let ([survives], spill) = (from.flags()?, from.text()?);
    if !spill.is_empty() && !spill.starts_with('/') {
        return Err(bad("its directory has no absolute name"));
    }
    let spill = (!spill.is_empty()).then(|| spill.into());
    Ok(Options {
        pick,
        keep,
        death,
        at_sync,
        at_step,
        records_now,
        persist,
        budget,
        full,
        spill,
        survives,
    })
}
