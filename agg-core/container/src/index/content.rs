//! Writes a merged index.

use crate::directory::{Dir, random};
use crate::errors::failed;
use crate::format::{Event, IndexLine, Manifest, Run, encode_run, part_mode, single, u32_at};
use crate::index::header::{BLOCK, EVENT, HEADER, Header, SINGLE, SINGLES};
use aggio_base::Result;
use std::fs::Permissions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;

/// The content of a new index.
#[derive(Debug)]
pub(crate) struct Content {
    /// The ids of the logs, by the numbers that runs use.
    logs: Vec<u64>,
    events: Vec<Event>,
    runs: Vec<Run>,
    singles: Vec<Single>,
}

/// A single piece, small: there may be millions.
#[derive(Clone, Copy, Debug)]
struct Single {
    start: u64,
    length: u64,
    place: u64,
    seq: u64,
    log: u32,
    /// Bytes from the start of the frame to the piece; 0 if that is not known.
    head: u32,
}

impl Content {
    /// No runs yet.
    pub(crate) fn new(logs: Vec<u64>, events: Vec<Event>) -> Self {
        Self { logs, events, runs: Vec::new(), singles: Vec::new() }
    }

    /// Takes in a run.
    pub(crate) fn add(&mut self, run: &Run) {
        if let Some(pair) = run.pair() {
            pair.iter().for_each(|piece| self.add(piece));
            return;
        }
        if run.count > 1 {
            self.runs.push(*run);
            return;
        }
        let Run { start, length, place, seq, log, .. } = *run;
        let head = run.frame_of(0).map_or(0, |frame| u32::try_from(place - frame).unwrap_or(0));
        self.singles.push(Single { start, length, place, seq, log, head });
    }

    /// Writes the index of `manifest`'s generation under its name; nobody looks at it before the
    /// manifest names it.
    pub(crate) fn store(mut self, dir: &Dir, manifest: &Manifest) -> Result<IndexLine> {
        self.runs.sort_unstable_by_key(|run| (run.log, run.seq));
        self.singles.sort_unstable_by_key(|piece| (piece.start, piece.seq));
        let name = format!("index.{}", manifest.generation);
        let temporary = format!(".{name}.{:016x}", random()?);
        let stored = self.write(dir, &temporary, manifest);
        let stored = stored.and_then(|line| dir.rename(&temporary, &name).map(|()| line));
        if stored.is_err() {
            // Report the original error. A leftover file is ignored because of its name.
            let _ = dir.remove(&temporary);
        }
        stored.map(|(length, crc)| IndexLine { name, length, crc })
    }

    fn write(&self, dir: &Dir, name: &str, manifest: &Manifest) -> Result<(u64, u32)> {
        let file = dir.new_part(name, 0o600)?;
        let fail = |error: std::io::Error| failed("write", &error, &dir.path_of(name));
        let permissions = Permissions::from_mode(part_mode(manifest.mode));
        file.set_permissions(permissions).map_err(fail)?;
        let (header, sections) = self.sections(manifest);
        let header = header.encode();
        let mut out = BufWriter::with_capacity(1 << 20, &file);
        out.write_all(&header).map_err(fail)?;
        for section in &sections {
            out.write_all(section).map_err(fail)?;
        }
        for block in self.singles.chunks(SINGLES) {
            out.write_all(&encode_block(block)).map_err(fail)?;
        }
        out.flush().map_err(fail)?;
        drop(out);
        file.sync_all().map_err(fail)?;
        Ok((file.metadata().map_err(fail)?.len(), u32_at(&header, HEADER - 4)))
    }

    /// The header, and everything between it and the singles.
    fn sections(&self, manifest: &Manifest) -> (Header, [Vec<u8>; 4]) {
        let logs: Vec<u8> = self.logs.iter().flat_map(|id| id.to_le_bytes()).collect();
        let events: Vec<u8> = self.events.iter().flat_map(encode_event).collect();
        let mut runs = Vec::new();
        let mut last = single(0, 0, 0, 0, 0);
        for run in &self.runs {
            encode_run(&mut runs, run, &last);
            last = *run;
        }
        let fence = |block: &[Single]| {
            let end = block.iter().map(|piece| piece.start + piece.length).max().unwrap_or(0);
            [block[0].start, end].into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>()
        };
        let fences: Vec<u8> = self.singles.chunks(SINGLES).flat_map(fence).collect();
        let header = Header {
            uuid: manifest.uuid,
            generation: manifest.generation,
            logs: self.logs.len() as u64,
            events: self.events.len() as u64,
            runs: self.runs.len() as u64,
            run_bytes: runs.len() as u64,
            singles: self.singles.len() as u64,
            sums: [&logs, &events, &runs, &fences]
                .map(|section| aggio_base::checksum::crc32c(section)),
            frames: true,
        };
        (header, [logs, events, runs, fences])
    }
}

fn encode_event(event: &Event) -> [u8; EVENT] {
    let mut bytes = [0; EVENT];
    let (kind, end) =
        if event.sets_size { (1, event.extent.offset) } else { (2, event.extent.end()) };
    let numbers = [kind, event.extent.offset, end, event.seq];
    for (room, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        room.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn encode_block(pieces: &[Single]) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    for (room, piece) in bytes.chunks_exact_mut(SINGLE).zip(pieces) {
        let log = u64::from(piece.head) << 32 | u64::from(piece.log);
        let numbers = [piece.start, piece.length, piece.place, piece.seq, log];
        for (room, number) in room.chunks_exact_mut(8).zip(numbers) {
            room.copy_from_slice(&number.to_le_bytes());
        }
    }
    let crc = aggio_base::checksum::crc32c(&bytes[..BLOCK - 4]);
    bytes[BLOCK - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}
