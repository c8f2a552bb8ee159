//! A container that becomes a set of files when its last rank closes it; or stays one, with all its
//! bytes.

use super::*;
use aggio_base::extent::Extent;
use aggio_container::blob::{self, Container, Create, Reader, Recast, Recaster};
use aggio_store::driver::scratch;
use std::fs::{self, File as OsFile};
use std::io::Write;
use std::path::Path;
use std::sync::Barrier;

const RANKS: usize = 4;

/// A layout in which each file has the bytes that its ranks wrote, one behind the other, and their
/// names.
pub(super) struct Piles;

impl Recaster for Piles {
    fn file_name(&self, set: &str, part: usize) -> String {
        format!("{set}.{part}")
    }

    fn is_part(&self, path: &Path) -> bool {
        fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"pile"))
    }

    fn write(
        &self,
        recast: &Recast,
        reader: &Reader,
        part: usize,
        mut to: &OsFile,
    ) -> Result<Option<String>> {
        let mut first = [0];
        reader.read_at(&mut first, 0)?;
        match (first[0], part) {
            (b'u', _) => return Ok(Some("it begins with u".into())),
            (b'f', 1) => return Err(Error::new(ErrorClass::NoSpace, "full").with_errno(28)),
            _ => {}
        }
        let mut pile = b"pile".to_vec();
        for segment in reader.segments(Extent::new(0, reader.size()))? {
            let log = segment.source.map_or(0, |(log, _)| log);
            let rank = recast.logs.iter().position(|known| *known == log).unwrap_or(0);
            if recast.groups[part].contains(&(rank as u32)) {
                if first[0] == b'k' {
                    let end = to.metadata().map_err(|error| Error::os("fstat", &error))?.len();
                    reader.copy(segment, to, end)?;
                    continue;
                }
                let mut bytes = vec![0; segment.logical.len as usize];
                reader.read_at(&mut bytes, segment.logical.offset)?;
                pile.push(b'0' + rank as u8);
                pile.extend(bytes);
            }
        }
        to.write_all(&pile).map_err(|error| Error::os("write", &error))?;
        Ok(None)
    }
}

/// A place where files become sets of two, see [`engine`].
fn place() -> scratch::Scratch {
    scratch::Scratch::new()
}

/// Every rank writes three bytes, and the first byte of all is `first`; returns the resulting
/// files.
fn written(place: &scratch::Scratch, name: &str, first: u8) -> Vec<String> {
    let path = place.file(name);
    ranks(RANKS, move |transport| {
        let file = open(&transport, &path, CREATE).expect("it opens");
        let rank = Rank { number: transport.rank(), file };
        let own = [if rank.number == 0 { first } else { b'a' }, b'b', b'c'];
        assert_eq!(moved(rank.write_all(Position::Explicit(3 * rank.number as i64), &own)), 3);
        rank.wait(rank.file.clone().close()).unwrap();
    });
    listed(place)
}

fn listed(place: &scratch::Scratch) -> Vec<String> {
    let entries = fs::read_dir(place.file("")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn container_holds(place: &scratch::Scratch, name: &str, bytes: &[u8]) {
    let path = place.file(name);
    let mut held = vec![0; 100];
    let len = Container::open(Path::new(&path)).unwrap().reader().unwrap().read_at(&mut held, 0);
    assert_eq!(&held[..len.unwrap()], bytes);
    let unfinished = fs::read_dir(&path).unwrap().flatten();
    let hidden = unfinished.filter(|entry| entry.file_name().as_encoded_bytes()[0] == b'.').count();
    assert_eq!(hidden, 0, "nothing unfinished is left");
}

#[test]
fn the_files_have_their_names_and_the_container_is_gone() {
    let place = place();
    assert_eq!(written(&place, "x.piles", b'x'), ["x.piles.0", "x.piles.1"]);
    assert_eq!(fs::read(place.file("x.piles.0")).unwrap(), b"pile0xbc1abc");
    assert_eq!(fs::read(place.file("x.piles.1")).unwrap(), b"pile2abc3abc");
}

#[test]
fn without_such_a_rule_it_stays_a_container() {
    let place = place();
    assert_eq!(written(&place, "x.blob", b'x'), ["x.blob"]);
    container_holds(&place, "x.blob", b"xbcabcabcabc");
}

#[test]
fn a_file_that_the_layout_cannot_express_stays_a_container() {
    let place = place();
    assert_eq!(written(&place, "x.piles", b'u'), ["x.piles"]);
    container_holds(&place, "x.piles", b"ubcabcabcabc");
}

#[test]
fn if_one_file_cannot_be_stored_it_stays_a_container_and_nothing_is_left_of_the_others() {
    let place = place();
    assert_eq!(written(&place, "x.piles", b'f'), ["x.piles"]);
    container_holds(&place, "x.piles", b"fbcabcabcabc");
}

#[test]
fn an_older_set_is_replaced_and_anything_else_is_not() {
    let place = place();
    for part in 0..4 {
        fs::write(place.file(&format!("x.piles.{part}")), "pile of old").unwrap();
    }
    assert_eq!(written(&place, "x.piles", b'x'), ["x.piles.0", "x.piles.1"]);
    assert_eq!(fs::read(place.file("x.piles.0")).unwrap(), b"pile0xbc1abc");
    fs::write(place.file("y.piles.1"), "somebody's").unwrap();
    let there = ["x.piles.0", "x.piles.1", "y.piles", "y.piles.1"];
    assert_eq!(written(&place, "y.piles", b'x'), there);
    assert_eq!(fs::read(place.file("y.piles.1")).unwrap(), b"somebody's");
    container_holds(&place, "y.piles", b"xbcabcabcabc");
}

#[test]
fn a_container_that_cannot_be_removed_as_a_whole_is_gone_all_the_same() {
    let place = place();
    assert_eq!(written(&place, "x.piles", b'u'), ["x.piles"]);
    fs::create_dir(place.file("x.piles/foreign")).unwrap();
    let left = written(&place, "x.piles", b'x');
    assert_eq!(left[1..], ["x.piles.0", "x.piles.1"], "the set counts");
    assert!(left[0].starts_with(".aggio-"), "{left:?}");
}

#[test]
fn while_somebody_else_has_it_open_it_stays_a_container() {
    let place = place();
    let path = place.file("x.piles");
    let (opened, may_write) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let other = {
        let (path, opened, may_write) = (path.clone(), opened.clone(), may_write.clone());
        std::thread::spawn(move || {
            ranks(1, move |transport| {
                let file = open(&transport, &path, CREATE).expect("it opens");
                opened.wait();
                may_write.wait();
                let rank = Rank { number: 0, file };
                assert_eq!(moved(rank.write(Position::Explicit(12), b"tail")), 4);
                rank.wait(rank.file.clone().close()).unwrap();
            });
        })
    };
    opened.wait();
    assert_eq!(written(&place, "x.piles", b'x'), ["x.piles"]);
    may_write.wait();
    other.join().unwrap();
    assert_eq!(listed(&place), ["x.piles.0"], "the last one makes the set");
    assert_eq!(fs::read(place.file("x.piles.0")).unwrap(), b"pile0xbc0abc0abc0abc0tail");
}

#[test]
fn while_somebody_else_writes_it_stays_a_container() {
    let place = place();
    let path = place.file("x.piles");
    let how = Create { mode: 0o644, exclusive: true, data_crc: true };
    let other = Container::create(Path::new(&path), &how).unwrap().writer().unwrap();
    other.write_at(b"tail", 12).unwrap();
    assert_eq!(written(&place, "x.piles", b'x'), ["x.piles"]);
    other.close().unwrap();
    container_holds(&place, "x.piles", b"xbcabcabcabctail");
    assert_eq!(written(&place, "x.piles", b'y'), ["x.piles.0", "x.piles.1"]);
    assert_eq!(fs::read(place.file("x.piles.0")).unwrap(), b"pile0ybc1abc0tail");
}

#[test]
fn a_container_with_a_damaged_byte_is_not_made_a_set_that_has_no_checksum_of_it() {
    let place = place();
    let path = place.file("x.blob");
    let how = Create { mode: 0o644, exclusive: true, data_crc: true };
    let container = Container::create(Path::new(&path), &how).unwrap();
    let writers = [container.writer().unwrap(), container.writer().unwrap()];
    for (writer, at) in writers.iter().zip([0, 1000]) {
        writer.write_at(&[b'k'; 1000], at).unwrap();
    }
    let logs: Vec<u64> = writers.iter().map(|writer| writer.log_id().unwrap()).collect();
    writers.into_iter().for_each(|writer| writer.close().unwrap());
    for known in [logs.clone(), vec![0, 0]] {
        let groups = vec![vec![0], vec![1]];
        let layout = blob::Layout::E3sm;
        let path = path.clone().into();
        let recast = Recast { path, layout, logs: known, groups, durable: false };
        assert!((0..2).all(|part| recast.write(&Piles, part).is_ok()));
        for log in &logs {
            let log = recast.path.join(format!("{log:016x}.log"));
            let whole = fs::read(&log).unwrap();
            let mut bytes = whole.clone();
            let at = bytes.windows(4).position(|four| four == b"kkkk").unwrap();
            bytes[at + 500] ^= 1;
            fs::write(&log, &bytes).unwrap();
            let failed: Vec<_> =
                (0..2).filter_map(|part| recast.write(&Piles, part).err()).collect();
            let [error] = &failed[..] else { panic!("{failed:?}") };
            let name = log.file_name().unwrap().to_string_lossy().into_owned();
            assert!(error.to_string().contains(&name) && error.errno() == libc::EIO, "{error}");
            fs::write(&log, &whole).unwrap();
        }
        recast.discard();
    }
    container_holds(&place, "x.blob", &[b'k'; 100]);
}
