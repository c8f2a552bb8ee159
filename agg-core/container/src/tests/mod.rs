//! Containers against a plain vector of bytes.

mod checksums;
mod damage;
mod full;
mod golden;
mod hostile;
mod lookups;
mod model;
mod staged;
mod together;
mod whole;

pub(crate) use golden::independent;

use crate::blob::*;
use aggio_base::Extent;

pub(crate) fn how() -> Create {
    Create { mode: 0o644, exclusive: false, data_crc: true }
}

#[test]
fn bytes_written_are_read_after_closing_and_opening() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    let container = Container::create(&path, &how()).unwrap();
    let writer = container.writer().unwrap();
    writer.write_at(b"hello", 10).unwrap();
    writer.write_at(b"J", 10).unwrap();
    assert_eq!(writer.append(b" world").unwrap(), 15);
    assert_eq!(writer.size().unwrap(), 21);
    writer.sync().unwrap();
    let reader = container.reader().unwrap();
    assert!(!reader.is_sealed());
    writer.punch(Extent::new(12, 2)).unwrap();
    assert!(reader.refresh().unwrap());
    assert!(!reader.refresh().unwrap());
    writer.close().unwrap();
    let container = Container::open(&path).unwrap();
    let attributes = container.attributes().unwrap();
    assert!(attributes.sealed);
    assert_eq!((attributes.size, attributes.mode, attributes.generation), (21, 0o644, 1));
    let mut bytes = [9; 30];
    for reader in [reader, container.reader().unwrap()] {
        assert_eq!(reader.read_at(&mut bytes, 0).unwrap(), 21);
        assert_eq!(&bytes[..21], b"\0\0\0\0\0\0\0\0\0\0Je\0\0o world");
    }
    remove(&path).unwrap();
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}
