//! The costs of a container: index size, opening and writing, printed.
//!
//! `cargo run --release -p agg-core --example blob_figures -- [--markdown] DIRECTORY [WRITERS
//! [WRITES]]`

use agg_core::blob::{Container, Create, Reader, remove};
use std::io::{Error, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const HOW: Create = Create { mode: 0o600, exclusive: true, data_crc: false };

/// The beginning of a document about the figures.
const HEAD: &str = "\
# Containers

4.19 million writes of 1,024 writers, each every 1,024th record of 16 bytes; as many pieces of odd \
lengths at places without order by one
writer; and records in a row beside `pwrite` to a file (best of five).

```text";

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let document = arguments.next_if(|word| word == "--markdown").is_some();
    if document {
        println!("{HEAD}");
    }
    figures(arguments)?;
    if document {
        println!("```");
    }
    Ok(())
}

fn figures(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    let Some(place) = arguments.next().map(PathBuf::from) else {
        return Err(Error::other("the first argument is a directory to work in").into());
    };
    let writers: u64 = arguments.next().map_or(Ok(1024), |n| n.parse())?;
    let writes: u64 = arguments.next().map_or(Ok(4096), |n| n.parse())?;
    regular(&place.join("aggio-regular"), writers, writes)?;
    irregular(&place.join("aggio-irregular"), writers * writes)?;
    for data_crc in [false, true] {
        records(&place, 47_008, 4096, data_crc)?;
    }
    records(&place, 1 << 20, 512, false)
}

/// Every writer writes records at a regular distance.
fn regular(path: &Path, writers: u64, writes: u64) -> Result<()> {
    const RECORD: u64 = 16;
    let container = Container::create(path, &HOW)?;
    let start = Instant::now();
    let many: Vec<_> = (0..writers).map(|_| container.writer()).collect::<agg_core::Result<_>>()?;
    for step in 0..writes {
        for (rank, writer) in many.iter().enumerate() {
            let record = step * writers + rank as u64;
            writer.write_at(&[record as u8; RECORD as usize], record * RECORD)?;
        }
    }
    println!("regular: {writers} x {writes} writes in {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    many.into_iter().try_for_each(|writer| writer.close())?;
    println!("  sealed in {:.2} s", start.elapsed().as_secs_f64());
    show_parts(path)?;
    let reader = opened(path)?;
    let mut all = vec![0; 1 << 20];
    let start = Instant::now();
    let mut offset = 0;
    while offset < reader.size() {
        let n = reader.read_at(&mut all, offset)?;
        for (k, bytes) in all[..n].chunks_exact(RECORD as usize).enumerate() {
            assert!(bytes.iter().all(|byte| *byte == (offset / RECORD + k as u64) as u8));
        }
        offset += n as u64;
    }
    println!("  read {offset} bytes in {:.2} s", start.elapsed().as_secs_f64());
    remove(path)?;
    Ok(())
}

/// Pieces of odd lengths at places without order.
fn irregular(path: &Path, pieces: u64) -> Result<()> {
    let container = Container::create(path, &HOW)?;
    let writer = container.writer()?;
    let bytes = [7; 64];
    let mut state = 1_u64;
    let start = Instant::now();
    for _ in 0..pieces / 1024 {
        let mut list = Vec::with_capacity(1024);
        for _ in 0..1024 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            list.push((state >> 30, &bytes[..1 + (state >> 20) as usize % 64]));
        }
        writer.write_pieces(&list)?;
    }
    println!("irregular: {pieces} pieces in {:.2} s", start.elapsed().as_secs_f64());
    let start = Instant::now();
    writer.close()?;
    println!("  sealed in {:.2} s", start.elapsed().as_secs_f64());
    show_parts(path)?;
    let reader = opened(path)?;
    let start = Instant::now();
    for k in 0..10_000 {
        let mut byte = [0; 4096];
        reader.read_at(&mut byte, k * 1_000_003)?;
    }
    println!("  10,000 reads of 4 KiB in {:.3} s", start.elapsed().as_secs_f64());
    remove(path)?;
    Ok(())
}

/// Opens a container and prints the time and the memory of the open.
fn opened(path: &Path) -> Result<Reader> {
    let (start, before) = (Instant::now(), resident());
    let reader = Container::open(path)?.reader()?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    println!("  opened in {ms:.2} ms, {} KiB more memory", resident().saturating_sub(before));
    Ok(reader)
}

fn show_parts(path: &Path) -> Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if !name.ends_with(".log") {
            println!("  {name}: {} bytes", entry.metadata()?.len());
        }
    }
    Ok(())
}

/// KiB of memory of this process that are in use.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// One writer's strided records, beside `pwrite` to a file of its own.
fn records(place: &Path, record: usize, count: u64, data_crc: bool) -> Result<()> {
    let bytes = vec![3; record];
    let path = place.join("aggio-records");
    let mut best = [f64::INFINITY; 2];
    for _ in 0..5 {
        let file = std::fs::File::create(&path)?;
        let start = Instant::now();
        for k in 0..count {
            file.write_all_at(&bytes, k * record as u64)?;
        }
        best[0] = best[0].min(start.elapsed().as_secs_f64());
        std::fs::remove_file(&path)?;
        let container = Container::create(&path, &Create { data_crc, ..HOW })?;
        let writer = container.writer()?;
        let start = Instant::now();
        for k in 0..count {
            writer.write_at(&bytes, k * 32 * record as u64)?;
        }
        best[1] = best[1].min(start.elapsed().as_secs_f64());
        writer.close()?;
        remove(&path)?;
    }
    let rate = |seconds: f64| (record as u64 * count) as f64 / seconds / 1e6;
    let [plain, blob] = best.map(rate);
    println!(
        "{count} records of {record}, checksum {data_crc}: plain {plain:.0} MB/s, blob {blob:.0} \
            MB/s"
    );
    std::io::stdout().flush()?;
    Ok(())
}
