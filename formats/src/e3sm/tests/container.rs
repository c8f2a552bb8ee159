//! HDF5 files with contiguous datasets of bytes, made by hand.

use crate::hdf5::checksum;

fn with_checksum(bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes).to_le_bytes();
    [&bytes[..], &sum].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(body.len()).unwrap().to_le_bytes();
    [&[kind, size[0], size[1], 0], body].concat()
}

/// An object header of version 2 without times.
fn object(messages: &[Vec<u8>]) -> Vec<u8> {
    let body = messages.concat();
    let size = u32::try_from(body.len()).unwrap().to_le_bytes();
    with_checksum([b"OHDR\x02\x02", &size[..], &body].concat())
}

/// The header of a dataset of bytes.
fn dataset(place: u64, size: u64) -> Vec<u8> {
    let number = |number: u64| number.to_le_bytes();
    let space = [&[2, 1, 0, 1][..], &number(size)].concat();
    let kind = [&[0x10, 0, 0, 0][..], &1_u32.to_le_bytes(), &[0, 0, 8, 0]].concat();
    let layout = [&[4, 1][..], &number(place), &number(size)].concat();
    object(&[message(1, &space), message(3, &kind), message(8, &layout)])
}

/// A file with these datasets in its root group.
pub(super) fn with_datasets(datasets: &[(&str, &[u8])]) -> Vec<u8> {
    const ROOT: usize = 48;
    const HEADER: usize = 128;
    let mut objects = Vec::new();
    let mut data = Vec::new();
    let mut links =
        vec![message(2, &[0, 0].iter().chain(&[0xFF; 16]).copied().collect::<Vec<u8>>())];
    let begin = ROOT + 512 + HEADER * datasets.len();
    for (index, (name, bytes)) in datasets.iter().enumerate() {
        let place = (ROOT + 512 + HEADER * index) as u64;
        let link = [&[1, 0, name.len() as u8][..], name.as_bytes(), &place.to_le_bytes()].concat();
        links.push(message(6, &link));
        let mut header = dataset((begin + data.len()) as u64, bytes.len() as u64);
        header.resize(HEADER, 0);
        objects.extend(header);
        data.extend_from_slice(bytes);
    }
    let mut root = object(&links);
    root.resize(512, 0);
    let end = (begin + data.len()) as u64;
    let numbers = [0, u64::MAX, end, ROOT as u64].map(u64::to_le_bytes).concat();
    let superblock = [&b"\x89HDF\r\n\x1a\n\x03\x08\x08\x00"[..], &numbers].concat();
    [with_checksum(superblock), root, objects, data].concat()
}
