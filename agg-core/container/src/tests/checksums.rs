//! Changed bits in the data of frames: found when the frames are read, and never returned as
//! correct data.

use crate::blob::*;
use crate::directory::dir::Dir;
use crate::directory::part_names::log_name;
use crate::reading::descriptors::Descriptors;
use crate::reading::gathered_reads;
use crate::reading::gathered_reads::Wanted;
use crate::reading::verification::Verifier;
use crate::reading::view::View;
use crate::tests::how;
use aggio_base::{Extent, Result};
use std::path::{Path, PathBuf};

/// Bytes of the file.
const SIZE: usize = 40_000;

/// Ways in which the same bytes come into a container: in frames with one piece, with a strip of
/// pieces, and with pieces in no order, few and many of them, so that there is an index or none.
fn written(path: &Path, way: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at * 31 + at / 257) as u8).collect();
    let container = Container::create(path, &how()).unwrap();
    let writer = container.writer().unwrap();
    let write = |frame: usize, len: usize| {
        let (start, end) = (frame * len, (frame + 1) * len);
        let part = |from: usize, to: usize| (from as u64, &bytes[from..to]);
        let third = (end - start) / 4;
        match way % 3 {
            0 => drop(writer.write_at(&bytes[start..end], start as u64).unwrap()),
            1 => writer
                .write_pieces(&[
                    part(start, start + third),
                    part(start + 2 * third, start + 3 * third),
                ])
                .and_then(|()| {
                    writer.write_pieces(&[
                        part(start + third, start + 2 * third),
                        part(start + 3 * third, end),
                    ])
                })
                .unwrap(),
            _ => writer
                .write_pieces(&[
                    part(start + third, start + 3 * third),
                    part(start + 3 * third, end),
                    part(start, start + third),
                ])
                .unwrap(),
        }
    };
    let len = if way < 3 { SIZE } else { SIZE / 20 };
    (0..SIZE / len).for_each(|frame| write(frame, len));
    writer.close().unwrap();
    bytes
}

fn log_of(path: &Path) -> PathBuf {
    path.join(log_name(Dir::open(path).unwrap().logs().unwrap()[0]))
}

/// Reads everything in steps; returns the first error.
fn read(path: &Path, how: Verify, step: usize) -> Result<Vec<u8>> {
    let reader = Container::open(path)?.reader()?.verifying(how)?;
    let mut bytes = vec![0; reader.size() as usize];
    for (number, part) in bytes.chunks_mut(step).enumerate() {
        assert_eq!(reader.read_at(part, (number * step) as u64)?, part.len());
    }
    Ok(bytes)
}

#[test]
fn a_changed_bit_of_data_is_an_error_that_names_the_log_and_the_bytes() {
    for way in 0..6 {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let model = written(&path, way);
        let log = log_of(&path);
        let whole = std::fs::read(&log).unwrap();
        for step in [SIZE, 7000, 512] {
            for verify in [Verify::Always, Verify::Whole, Verify::Never] {
                assert!(read(&path, verify, step).unwrap() == model, "{way}, {step}, {verify:?}");
            }
        }
        let reader = Container::open(&path).unwrap().reader().unwrap();
        for offset in [0, 300, SIZE / 2, SIZE - 1] {
            let found = reader.segments(Extent::new(offset as u64, 1)).unwrap()[0].source;
            let at = found.unwrap().1 as usize;
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&log, &bytes).unwrap();
            for (verify, step) in [
                (Verify::Whole, SIZE),
                (Verify::Always, SIZE),
                (Verify::Always, 7000),
                (Verify::Always, 512),
            ] {
                let error = read(&path, verify, step).expect_err("one bit was changed");
                let words = error.to_string();
                let named = words.contains(&*log.to_string_lossy()) && words.contains("byte");
                assert!(named && error.errno() == libc::EIO, "{way}, {at}: {words}");
            }
            for verify in [Verify::Whole, Verify::Always] {
                let reader = Container::open(&path).unwrap().reader().unwrap();
                let reader = reader.verifying(verify).unwrap();
                let ranges: Vec<Extent> =
                    (0..SIZE as u64).step_by(100).map(|at| Extent::new(at, 100)).collect();
                let mut bytes = vec![0; SIZE];
                let error = reader.read_ranges(&mut bytes, &ranges).expect_err("one bit");
                assert_eq!(error.errno(), libc::EIO, "{way}, {at}: {error}");
            }
            let unseen = read(&path, Verify::Never, SIZE).unwrap();
            assert!(unseen != model, "{way}, {at}: what nobody asks for is not checked");
        }
    }
}

#[test]
fn frames_that_are_read_from_their_beginning_on_fail_at_their_end_at_the_latest() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    let model = written(&path, 0);
    let log = log_of(&path);
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[1000] ^= 0x80;
    std::fs::write(&log, &bytes).unwrap();
    let reader = Container::open(&path).unwrap().reader().unwrap();
    let mut part = vec![0; SIZE / 10];
    for number in 0..10_u64 {
        let result = reader.read_at(&mut part, number * (SIZE / 10) as u64);
        assert_eq!(result.is_err(), number == 9, "{number}");
    }
    // Parts out of order are no whole; asked for, they are refused at once.
    assert_eq!(reader.read_at(&mut part, 20_000).unwrap(), part.len());
    assert_eq!(part, model[20_000..24_000]);
    let always = Container::open(&path).unwrap().reader().unwrap();
    let always = always.verifying(Verify::Always).unwrap();
    assert_eq!(always.read_at(&mut part, 20_000).unwrap_err().errno(), libc::EIO);
}

#[test]
fn what_is_merged_is_always_checked() {
    let how = Merge { verify: false, ..crate::tests::whole::MERGE };
    for way in 0..6 {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let model = written(&path, way);
        let to = place.path().join("plain");
        merge(&path, &to, &how).unwrap();
        assert!(std::fs::read(&to).unwrap() == model);
        std::fs::remove_file(&to).unwrap();
        let log = log_of(&path);
        let mut bytes = std::fs::read(&log).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(&log, &bytes).unwrap();
        assert_eq!(merge(&path, &to, &how).unwrap_err().errno(), libc::EIO, "{way}");
        assert!(!to.exists());
    }
}

#[test]
fn a_container_of_an_older_version_is_checked_as_well() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("blob");
    std::fs::create_dir(&path).unwrap();
    for entry in std::fs::read_dir(golden.join("blob")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), path.join(entry.file_name())).unwrap();
    }
    let model = std::fs::read(golden.join("blob.bytes")).unwrap();
    assert!(read(&path, Verify::Always, 64).unwrap() == model);
    for id in Dir::open(&path).unwrap().logs().unwrap() {
        let log = path.join(log_name(id));
        let whole = std::fs::read(&log).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x20;
            std::fs::write(&log, &bytes).unwrap();
            // Bytes that newer ones hide may be wrong.
            if let Ok(found) = read(&path, Verify::Always, 64) {
                assert!(found == model, "byte {at} of {}", log.display());
            }
        }
        std::fs::write(&log, &whole).unwrap();
    }
}

/// A container as the functions see it that read parts of its logs.
struct Opened {
    dir: Dir,
    files: Descriptors,
    view: View,
}

impl Opened {
    fn new(path: &Path) -> Self {
        let (dir, files) = (Dir::open(path).unwrap(), Descriptors::new());
        let view = View::load(&dir, &files).unwrap();
        Self { dir, files, view }
    }

    /// The parts of logs with the bytes of the file from `offset` on, after they were read.
    fn read<'a>(&self, bytes: &'a mut [u8], offset: u64) -> Vec<Wanted<'a>> {
        let range = Extent::new(offset, bytes.len() as u64);
        let (mut wanted, mut rest) = (Vec::new(), bytes);
        for found in self.view.find(range, &self.dir, &self.files).unwrap() {
            let (part, others) = rest.split_at_mut(found.extent.len as usize);
            rest = others;
            let (number, place) = found.source.unwrap();
            let id = self.view.logs[number as usize].id;
            wanted.push(Wanted::new((id, place), part, found.frame, true));
        }
        gathered_reads::read(&self.dir, &self.files, &mut wanted).unwrap();
        wanted
    }
}

#[test]
fn frames_that_are_not_to_be_read_as_a_whole_are_checked_without_a_request() {
    for way in 0..6 {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        let model = written(&path, way);
        // Bytes within a frame, and all.
        for (offset, len) in [(101, 50), (SIZE / 2 + 101, 50), (0, SIZE)] {
            let opened = Opened::new(&path);
            let mut bytes = vec![0; len];
            let mut wanted = opened.read(&mut bytes, offset as u64);
            opened.files.forget_all();
            let (log, away) = (log_of(&path), place.path().join("away"));
            std::fs::rename(&log, &away).unwrap();
            let (dir, files) = (&opened.dir, &opened.files);
            Verifier::default().check(dir, files, &mut wanted, false).unwrap();
            std::fs::rename(&away, &log).unwrap();
            assert!(bytes == model[offset..offset + len], "{way}");
        }
    }
}

#[test]
fn parts_from_the_middle_of_a_frame_need_its_header_once() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    let model = written(&path, 3);
    let reader = Container::open(&path).unwrap().reader().unwrap();
    // Parts of all twenty frames by turns, at distances from the header at which the first bytes of
    // data could be.
    let read = |from: usize, upto: usize| -> Result<bool> {
        let mut right = true;
        for at in (from..upto).flat_map(|at| (0..20).map(move |frame| frame * SIZE / 20 + at)) {
            let mut part = [0; 64];
            reader.read_at(&mut part, at as u64)?;
            right &= part == model[at..at + 64];
        }
        Ok(right)
    };
    assert_eq!(read(100, 164), Ok(true));
    let log = log_of(&path);
    let mut bytes = std::fs::read(&log).unwrap();
    let heads: Vec<usize> =
        (0..bytes.len() - 4).filter(|at| &bytes[*at..at + 4] == b"agF1").collect();
    assert!(heads.len() >= 20);
    heads.iter().for_each(|at| bytes[*at..at + 4].fill(0));
    std::fs::write(&log, bytes).unwrap();
    assert_eq!(read(164, 300), Ok(true));
}

#[test]
fn if_others_change_the_callers_memory_all_parts_of_the_frame_are_read_again() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    // Its frame has pieces in another order.
    let model = written(&path, 2);
    for always in [false, true] {
        let opened = Opened::new(&path);
        let mut bytes = vec![0; SIZE];
        let mut wanted = opened.read(&mut bytes, 0);
        assert!(wanted.len() > 1);
        wanted.iter_mut().for_each(|part| part.into[7] ^= 1);
        Verifier::default().check(&opened.dir, &opened.files, &mut wanted, always).unwrap();
        assert!(bytes == model);
    }
}
