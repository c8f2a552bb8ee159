//! Summaries: the last frame of a closed log describes all the others, so that the process that
//! seals the container need not read the header of every frame.

use crate::errors::failed;
use crate::format::{
    FILE_END, Frame, HEADER, Kind, Lengths, Run, decode_runs, encode_run, single, u32_at, u64_at,
};
use crate::log::scan::{Meaning, meaning};
use aggio_base::Result;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The last bytes of a log that ends with a summary.
const MAGIC: [u8; 8] = *b"aggiosum";
/// Bytes behind the coded runs; the magic number ends them.
const TRAILER: usize = 32;
/// A log with fewer frames gets no summary: a scan is as fast.
const LEAST: u64 = if cfg!(test) { 4 } else { 16 };
/// The most runs of a summary: writes without any order get none.
const MOST: usize = 1 << 14;
/// Bytes of a summary at most: ten for each of the ten numbers of a run.
const LONGEST: u64 = (HEADER + TRAILER + 100 * MOST) as u64;

/// The summary of a log, while its writer adds frames.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    runs: Vec<Run>,
    frames: u64,
    crc: u32,
    /// There were truncations, holes, or too many runs.
    given_up: bool,
}

/// The content of a log, according to its summary.
#[derive(Debug)]
pub(crate) struct Told {
    /// The pieces of all frames.
    pub(crate) runs: Vec<Run>,
    /// Number of frames, the last one included.
    pub(crate) frames: u64,
    /// Checksum of the checksums of their headers.
    pub(crate) crc: u32,
    /// The highest sequence number.
    pub(crate) last_seq: u64,
}

impl Summary {
    /// Adds the next frame; `crc` is the checksum of its header.
    pub(crate) fn add(&mut self, frame: &Frame, crc: u32) {
        self.frames += 1;
        self.crc = aggio_base::checksum::crc32c_append(self.crc, &crc.to_le_bytes());
        if self.given_up {
            return;
        }
        // Readers have to find the bytes that are changed in place, which a summary does not list.
        if matches!(frame.kind, Kind::Mapped | Kind::Again) {
            return self.give_up();
        }
        match meaning(frame, 0) {
            Meaning::Nothing => {}
            Meaning::Event(_) | Meaning::Elsewhere(..) => self.give_up(),
            Meaning::Runs(runs) => runs.into_iter().for_each(|run| self.add_run(run)),
        }
    }

    fn add_run(&mut self, run: Run) {
        if self.runs.last_mut().is_some_and(|last| last.extend(&run)) {
            return;
        }
        self.runs.push(run);
        if self.runs.len() > MOST {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        (self.given_up, self.runs) = (true, Vec::new());
    }

    /// The data of the summary frame; `None` if a summary is not worth it or not possible.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        if self.given_up || self.frames < LEAST {
            return None;
        }
        let (mut bytes, mut last) = (Vec::new(), single(0, 0, 0, 0, 0));
        for run in &self.runs {
            encode_run(&mut bytes, run, &last);
            last = *run;
        }
        let len = (HEADER + bytes.len() + TRAILER) as u32;
        bytes.extend(self.frames.to_le_bytes());
        bytes.extend((self.runs.len() as u64).to_le_bytes());
        bytes.extend(self.crc.to_le_bytes());
        bytes.extend(len.to_le_bytes());
        bytes.extend(MAGIC);
        Some(bytes)
    }
}

/// Reads the summary at the end of a log of `length` bytes, if there is a sound one; its runs are
/// those of the log `number`.
pub(crate) fn find(
    file: &File,
    path: &Path,
    (id, number): (u64, u32),
    length: u64,
) -> Result<Option<Told>> {
    let mut trailer = [0; TRAILER];
    let least = (HEADER + TRAILER) as u64;
    let read = |bytes: &mut [u8], place: u64| {
        file.read_exact_at(bytes, place).map_err(|error| failed("pread", &error, path))
    };
    if length < least {
        return Ok(None);
    }
    read(&mut trailer, length - TRAILER as u64)?;
    let len = u64::from(u32_at(&trailer, 20));
    if trailer[24..] != MAGIC || !(least..=LONGEST.min(length)).contains(&len) {
        return Ok(None);
    }
    let mut bytes = vec![0; len as usize];
    read(&mut bytes, length - len)?;
    Ok(decode(&bytes, id, length - len).map(|mut told| {
        told.runs.iter_mut().for_each(|run| run.log = number);
        told
    }))
}

/// Decodes the bytes of a whole frame, if they are a sound summary at this place of the log `id`.
fn decode(bytes: &[u8], id: u64, place: u64) -> Option<Told> {
    let (head, data) = bytes.split_first_chunk::<HEADER>()?;
    let lengths = Lengths::of(head).ok()?;
    let frame = Frame::decode(head).ok()?;
    let own = frame.kind == Kind::Summary && frame.log == id && frame.place == place;
    if !own
        || lengths.data != data.len() as u64
        || frame.data_crc != aggio_base::checksum::crc32c(data)
    {
        return None;
    }
    let (runs, trailer) = data.split_last_chunk::<TRAILER>()?;
    let (frames, count) = (u64_at(trailer, 0), u64_at(trailer, 8));
    let runs = decode_runs(runs, count, &[place]).ok()?;
    let newest = runs.iter().map(|run| run.last_seq).max().unwrap_or(0);
    (newest <= frame.last_seq).then(|| Told {
        runs,
        frames: frames.saturating_add(1),
        crc: aggio_base::checksum::crc32c_append(
            u32_at(trailer, 16),
            &frame.head_crc.to_le_bytes(),
        ),
        last_seq: frame.last_seq,
    })
}

/// A log of zeros that ends with a summary of these coded runs, `count` of them as it says.
pub(crate) fn after_zeros(runs: &[u8], count: u64) -> Vec<u8> {
    const ZEROS: usize = 4096;
    let mut data = runs.to_vec();
    data.extend(0_u64.to_le_bytes());
    data.extend(count.to_le_bytes());
    data.extend(0_u32.to_le_bytes());
    data.extend(((HEADER + data.len() + 12) as u32).to_le_bytes());
    data.extend(MAGIC);
    let frame = Frame {
        kind: Kind::Summary,
        flags: 0,
        strips: Vec::new(),
        data_len: data.len() as u64,
        data_crc: aggio_base::checksum::crc32c(&data),
        seq: 0,
        last_seq: FILE_END - 1,
        log: 0,
        place: ZEROS as u64,
        skip: 0,
        head_crc: 0,
    };
    let mut bytes = vec![0; ZEROS];
    bytes.extend(frame.encode());
    bytes.extend(data);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::dir::Dir;
    use crate::directory::part_names::log_name;
    use crate::file::container::Container;
    use crate::reading::descriptors::Descriptors;
    use crate::reading::view::View;
    use crate::repair::check::check;
    use crate::repair::findings::Check;
    use crate::tests::how;
    use proptest::prelude::*;
    use std::path::PathBuf;

    /// A container that is not sealed, because its second writer is still open, and the log of the
    /// first writer, which wrote these pieces and closed.
    fn unsealed(
        place: &Path,
        pieces: &[(u64, usize)],
    ) -> (Container, crate::writing::writer::Writer, PathBuf) {
        let container = Container::create(&place.join("file"), &how()).unwrap();
        let (first, second) = (container.writer().unwrap(), container.writer().unwrap());
        for (number, (offset, len)) in pieces.iter().enumerate() {
            first.write_at(&vec![number as u8 + 1; *len], *offset).unwrap();
        }
        let log = place.join("file").join(log_name(first.log_id().unwrap()));
        first.close().unwrap();
        (container, second, log)
    }

    fn told(log: &Path) -> Option<Told> {
        let file = File::open(log).unwrap();
        let id = u64::from_str_radix(log.file_stem().unwrap().to_str().unwrap(), 16).unwrap();
        find(&file, log, (id, 0), file.metadata().unwrap().len()).unwrap()
    }

    fn bytes(container: &Container) -> Vec<u8> {
        let reader = container.reader().unwrap();
        let mut bytes = vec![0; reader.size() as usize];
        reader.read_at(&mut bytes, 0).unwrap();
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn a_container_is_the_same_with_and_without_its_summaries(
            pieces in prop::collection::vec((0_u64..300, 1_usize..40), 1..60), strided: bool,
        ) {
            let place = tempfile::tempdir().unwrap();
            let mut pieces = pieces;
            if strided {
                pieces.iter_mut().enumerate().for_each(|(k, piece)| *piece = (50 * k as u64, 20));
            }
            let (container, second, log) = unsealed(place.path(), &pieces);
            prop_assert_eq!(told(&log).is_some(), pieces.len() as u64 >= LEAST);
            let state = || {
                let dir = Dir::open(&place.path().join("file")).unwrap();
                let view = View::load(&dir, &Descriptors::new()).unwrap();
                (view.size(), view.next_seq, view.logs[0].frames, view.logs[0].crc)
            };
            let (with, content) = (state(), bytes(&container));
            if told(&log).is_some() {
                let whole = std::fs::read(&log).unwrap();
                let mut without = whole.clone();
                // Without the magic number at its end the frames are looked at.
                *without.last_mut().unwrap() ^= 1;
                std::fs::write(&log, &without).unwrap();
                prop_assert_eq!(state(), with);
                prop_assert_eq!(bytes(&container), content.clone());
                std::fs::write(&log, &whole).unwrap();
            }
            second.close().unwrap();
            prop_assert_eq!(bytes(&container), content);
            let how = Check { data: true, ..Check::default() };
            prop_assert_eq!(check(&place.path().join("file"), &how).unwrap().exit_code(), 0);
        }
    }

    #[test]
    fn pieces_around_a_truncation_by_another_writer_count_by_their_numbers() {
        let place = tempfile::tempdir().unwrap();
        let container = Container::create(&place.path().join("file"), &how()).unwrap();
        let (first, second) = (container.writer().unwrap(), container.writer().unwrap());
        for k in 0..10_u64 {
            if k == 8 {
                second.set_size(10).unwrap();
            }
            first.write_at(&[7; 10], 1000 - 100 * k).unwrap();
        }
        first.close().unwrap();
        let reader = container.reader().unwrap();
        assert_eq!(reader.size(), 210, "the run of ten pieces began before the truncation");
        second.close().unwrap();
        assert_eq!(container.reader().unwrap().size(), 210);
    }

    #[test]
    fn truncations_holes_and_what_is_durable_already_are_not_summed_up() {
        let place = tempfile::tempdir().unwrap();
        for (name, what) in [("hole", 0), ("cut", 1), ("synced", 2)] {
            let path = place.path().join(name);
            let container = Container::create(&path, &how()).unwrap();
            let (writer, _other) = (container.writer().unwrap(), container.writer().unwrap());
            assert!((0..10).all(|k| writer.write_at(b"abc", 100 * k).is_ok()));
            match what {
                0 => writer.punch(aggio_base::Extent::new(0, 10)).unwrap(),
                1 => writer.set_size(5).unwrap(),
                _ => writer.sync().unwrap(),
            }
            let log = path.join(log_name(writer.log_id().unwrap()));
            writer.close().unwrap();
            assert!(told(&log).is_none(), "{name}");
        }
    }

    #[test]
    fn every_changed_byte_of_a_summary_makes_it_none() {
        let place = tempfile::tempdir().unwrap();
        let (_container, _second, log) = unsealed(place.path(), &[(9, 5), (0, 3), (70, 2), (4, 4)]);
        let whole = std::fs::read(&log).unwrap();
        let summary = told(&log).unwrap();
        assert_eq!((summary.runs.len(), summary.frames), (4, 5));
        let last_data = summary.runs.iter().map(|run| run.place + run.length).max().unwrap();
        for at in last_data as usize..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x41;
            std::fs::write(&log, &changed).unwrap();
            assert!(told(&log).is_none(), "byte {at}");
        }
    }

    #[test]
    fn a_summary_of_other_frames_is_found_by_a_check() {
        let place = tempfile::tempdir().unwrap();
        let (_container, _second, log) = unsealed(place.path(), &[(9, 5), (0, 3), (70, 2), (4, 4)]);
        let mut bytes = std::fs::read(&log).unwrap();
        let start = bytes.windows(4).rposition(|four| four == crate::format::frame::MAGIC).unwrap();
        let mut frame = Frame::decode(&bytes[start..start + HEADER]).unwrap();
        let frames = bytes.len() - TRAILER;
        bytes[frames] += 1;
        frame.data_crc = aggio_base::checksum::crc32c(&bytes[start + HEADER..]);
        frame.encode_into(&mut bytes[start..]);
        std::fs::write(&log, &bytes).unwrap();
        let findings = check(&place.path().join("file"), &Check::default()).unwrap();
        let words: Vec<_> = findings.problems.iter().map(|problem| &problem.words).collect();
        assert!(words.iter().any(|words| words.contains("summary")), "{words:?}");
    }
}
