//! Sealing: the only writer of a container records its logs in the manifest, so that readers need
//! not scan every frame.

use crate::directory::Dir;
use crate::format::{Manifest, SealedLog, part_mode};
use crate::order::{Sequencer, Word};
use crate::reading::{Descriptors, View};
use aggio_base::Result;
use std::time::Duration;

/// Fewer frames are scanned faster than an index is written and made durable.
const INDEXED: u64 = if cfg!(test) { 4 } else { 256 };

/// Registers a writer. The first writer initialises the shared words; after a crash it seals the
/// container for that.
///
/// Unless `map` is set the shared words are not mapped even where they can be.
pub(crate) fn arrive(dir: &Dir, map: bool) -> Result<Sequencer> {
    let manifest = Manifest::load(dir)?;
    let order = Sequencer::open(dir, part_mode(manifest.mode), map)?;
    take_part(dir, &order)?;
    if !order.is_counting() {
        order.store(Word::Uncounted, 1)?;
    }
    Ok(order)
}

fn take_part(dir: &Dir, order: &Sequencer) -> Result<()> {
    loop {
        if order.be_alone()? {
            let manifest = {
                let _turn = order.manifest_turn()?;
                seal(dir)?
            };
            order.store(Word::Ready, 0)?;
            let next = order.load(Word::Next)?.max(manifest.epoch);
            // A counter that no file could have reached is not one.
            let next =
                if next < crate::format::frame::FILE_END / 2 { next } else { manifest.epoch };
            order.store(Word::Next, next)?;
            order.store(Word::Size, manifest.size)?;
            let cleared =
                [Word::Truncations, Word::Growths, Word::Counts, Word::Mapped, Word::Uncounted];
            cleared.into_iter().try_for_each(|word| order.store(word, 0))?;
            order.store(Word::Ready, 1)?;
            return order.arrive();
        }
        order.arrive()?;
        if order.load(Word::Ready)? == 1 {
            return Ok(());
        }
        // The only writer died before the words were valid.
        order.leave()?;
        std::thread::sleep(Duration::from_millis(1 + u64::from(std::process::id() % 7)));
    }
}

/// Unregisters a writer; the last one seals.
pub(crate) fn leave(dir: &Dir, order: &Sequencer) -> Result<()> {
    // Two writers that leave at the same time must not each see the other.
    order.leave()?;
    if !order.be_alone()? {
        return Ok(());
    }
    let sealed = order.manifest_turn().and_then(|_turn| seal(dir));
    order.leave()?;
    sealed.map(drop)
}

/// Brings the manifest up to date; the caller must be the only writer.
pub(crate) fn seal(dir: &Dir) -> Result<Manifest> {
    let files = Descriptors::new();
    let view = View::load(dir, &files)?;
    let told = view.is_sealed() && view.logs.len() == view.manifest.logs.len();
    if told {
        return Ok(view.manifest);
    }
    store(dir, &view)
}

/// The same with a scan of all logs, regardless of their previous lengths; the rest of the manifest
/// stays.
pub(crate) fn seal_anew(dir: &Dir, manifest: Manifest) -> Result<Manifest> {
    store(dir, &View::scanned(manifest, dir, &Descriptors::new())?)
}

fn store(dir: &Dir, view: &View) -> Result<Manifest> {
    let old = view.manifest.index.clone();
    let mut manifest = view.manifest.clone();
    manifest.generation += 1;
    manifest.size = view.size();
    manifest.epoch = view.next_seq;
    manifest.logs = view
        .logs
        .iter()
        .map(|log| SealedLog { id: log.id, length: log.scanned, frames: log.frames, crc: log.crc })
        .collect();
    manifest.logs.sort_unstable_by_key(|log| log.id);
    let frames: u64 = manifest.logs.iter().map(|log| log.frames).sum();
    manifest.index = match frames {
        few if few < INDEXED => None,
        _ => Some(view.content()?.store(dir, &manifest)?),
    };
    manifest.store(dir)?;
    if let Some(old) = old {
        // Readers of the old manifest find the logs. A leftover file is ignored because of its
        // name.
        let _ = dir.remove(&old.name);
    }
    Ok(manifest)
}
