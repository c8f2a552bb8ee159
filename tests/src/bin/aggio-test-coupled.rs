//! Programs that exchange a file through the agent, for tests across nodes.
//!
//! ```text
//! aggio-test-coupled write PATH FIRST LAST BYTES [PAUSE]
//! aggio-test-coupled read PATH FIRST LAST BYTES [PAUSE]
//! aggio-test-coupled hold PATH FIRST LAST BYTES PAUSE
//! aggio-test-coupled rewrite PATH FIRST LAST BYTES
//! aggio-test-coupled impatient PATH FIRST LAST BYTES
//! aggio-test-coupled part PATH FIRST LAST BYTES PAUSE PARTS NUMBER
//! aggio-test-coupled parts PATH FIRST LAST BYTES PAUSE NUMBER OF [rest|few]
//! aggio-test-coupled status
//! aggio-test-coupled agent --foreground --ready --dir DIR
//! ```
//!
//! `write` writes generations of known bytes, `read` compares them; both wait PAUSE milliseconds
//! after each. `hold` waits while it has the file open. `rewrite` first writes too many bytes and
//! cuts the file to none, by its name or by another open. `part` writes every PARTS-th byte from
//! NUMBER on, waits PAUSE milliseconds before and after while it has the file open, and compares
//! the whole file. `parts` reads the NUMBER-th of OF parts, and, with `rest`, PAUSE milliseconds
//! later all bytes; with `few` less than half of a file that another node owns may have come.
//! `impatient` reads after a signal has ended its first open. `agent` runs the agent that programs
//! start. `status` prints what the agent of the node tells, as JSON.
//!
//! `AGGIO_COUPLE`, `AGGIO_COUPLE_DIR` and `AGGIO_TEST_AGENT` are as for any program.

use agg_core::Extent;
use aggio_config::settings::Settings;
use aggio_couple::{Client, Open, is_away};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes that are written and compared at a time.
const PIECE: usize = 1 << 20;

/// Eight bytes of a generation.
fn word(generation: u64, at: u64) -> u64 {
    (at ^ generation << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The bytes of a generation from `offset` on.
fn fill(bytes: &mut [u8], generation: u64, offset: u64) {
    for (at, chunk) in (offset / 8..).zip(bytes.chunks_mut(8)) {
        let word = word(generation, at).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// Generations differ in length.
fn length(bytes: u64, generation: u64) -> u64 {
    bytes + generation % 7
}

fn pieces(len: u64) -> impl Iterator<Item = (u64, usize)> {
    let piece = PIECE as u64;
    (0..len.div_ceil(piece)).map(move |at| (at * piece, (len - at * piece).min(piece) as usize))
}

fn how(path: &Path, write: bool) -> Open<'_> {
    let how = Open::new(path);
    Open { read: !write, write, create: write, truncate: write, mode: 0o644, ..how }
}

fn write(
    client: &Client,
    path: &Path,
    generation: u64,
    bytes: u64,
    hold: Option<Duration>,
) -> io::Result<()> {
    let opened = client.open(&how(path, true))?;
    let file = File::from(opened.fd);
    if let Some(hold) = hold {
        println!("open");
        std::thread::sleep(hold);
    }
    let mut piece = vec![0; PIECE];
    for (offset, len) in pieces(length(bytes, generation)) {
        fill(&mut piece[..len], generation, offset);
        file.write_all_at(&piece[..len], offset)?;
    }
    drop(file);
    client.close(opened.handle, 0)
}

/// Writes one of several parts while other processes write the others, and compares the whole file.
fn part(
    client: &Client,
    path: &Path,
    generation: u64,
    bytes: u64,
    (pause, words): (Duration, &[&str]),
) -> io::Result<()> {
    let [parts, number] = words else { return Err(io::Error::other("part ... PARTS NUMBER")) };
    let parts: usize = parts.parse().map_err(io::Error::other)?;
    let number: usize = number.parse().map_err(io::Error::other)?;
    let how = Open { read: true, truncate: false, ..how(path, true) };
    let opened = client.open(&how)?;
    let file = File::from(opened.fd);
    println!("open");
    std::thread::sleep(pause);
    let mut whole = vec![0; length(bytes, generation) as usize];
    fill(&mut whole, generation, 0);
    for (at, byte) in whole.iter().enumerate().skip(number).step_by(parts) {
        file.write_all_at(std::slice::from_ref(byte), at as u64)?;
    }
    client.sync(opened.handle)?;
    println!("written");
    std::thread::sleep(pause);
    client.renew(opened.handle)?;
    for (at, byte) in whole.iter().enumerate() {
        let mut found = [0];
        file.read_exact_at(&mut found, at as u64)?;
        if found[0] != *byte {
            return Err(io::Error::other(format!("wrong byte of {generation} at {at}")));
        }
    }
    drop(file);
    client.close(opened.handle, 0)
}

/// Writes too many bytes, cuts the file to none by another open or its name, and writes the right
/// bytes.
fn rewrite(client: &Client, path: &Path, generation: u64, bytes: u64) -> io::Result<()> {
    let even = generation.is_multiple_of(2);
    let first = client.open(&how(path, true))?;
    File::from(first.fd).write_all_at(&vec![b'x'; 2 * bytes as usize], 0)?;
    let second = client.open(&Open { truncate: even, ..how(path, true) })?;
    if !even {
        client.truncate(path, 0)?;
    }
    let file = File::from(second.fd);
    // The reply to a request arrives after all earlier messages of the owner of the file.
    client.check(second.handle, 0)?;
    let mut whole = vec![0; length(bytes, generation) as usize];
    fill(&mut whole, generation, 0);
    file.write_all_at(&whole, 0)?;
    drop(file);
    client.close(first.handle, 0)?;
    client.close(second.handle, 0)
}

/// Gives up an open that waits when a signal comes.
fn give_up(client: &Client, path: &Path) -> io::Result<()> {
    extern "C" fn ignore(_: libc::c_int) {}
    // SAFETY: all-zero bytes are a valid action; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as *const () as usize;
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        libc::alarm(1);
    }
    match client.open(&how(path, false)) {
        Err(error) if error.raw_os_error() == Some(libc::EINTR) => {
            println!("given up");
            Ok(())
        }
        other => Err(io::Error::other(format!("the open was not interrupted: {other:?}"))),
    }
}

/// Compares some bytes of a generation.
fn compare(file: &File, generation: u64, extent: Extent) -> io::Result<()> {
    let (mut piece, mut expected) = (vec![0; PIECE], vec![0; PIECE]);
    for (offset, len) in pieces(extent.len) {
        let offset = extent.offset + offset;
        file.read_exact_at(&mut piece[..len], offset)?;
        fill(&mut expected[..len], generation, offset);
        if piece[..len] != expected[..len] {
            return Err(io::Error::other(format!("wrong bytes of {generation} behind {offset}")));
        }
    }
    Ok(())
}

/// Reads a part of a file; another node sends only that part.
fn parts(
    client: &Client,
    path: &Path,
    generation: u64,
    bytes: u64,
    (pause, words): (Duration, &[&str]),
) -> io::Result<()> {
    let [number, of, more @ ..] = words else { return Err(io::Error::other("parts ... OF")) };
    let number: u64 = number.parse().map_err(io::Error::other)?;
    let of: u64 = of.parse().map_err(io::Error::other)?;
    let opened = client.open(&Open { parts: true, ..how(path, false) })?;
    let (file, len) = (File::from(opened.fd), length(bytes, generation));
    let [start, end] = [number, number + 1].map(|number| number * len / of / 8 * 8);
    let part = Extent::between(start, end);
    client.fetch(opened.handle, &[part], 0)?;
    compare(&file, generation, part)?;
    let held = 512 * file.metadata()?.blocks();
    if more == ["few"] && is_away(opened.handle) && held > len / 2 {
        return Err(io::Error::other(format!("{held} of {len} bytes came for {}", part.len)));
    }
    println!("read");
    std::thread::sleep(pause);
    if more == ["rest"] {
        client.fetch(opened.handle, &[Extent::new(0, len)], 0)?;
        compare(&file, generation, Extent::new(0, len))?;
    }
    drop(file);
    client.close(opened.handle, len)
}

fn read(client: &Client, path: &Path, generation: u64, bytes: u64) -> io::Result<()> {
    let opened = client.open(&how(path, false))?;
    let (file, len) = (File::from(opened.fd), length(bytes, generation));
    let found = file.metadata()?.len();
    if (found, opened.generation) != (len, generation) {
        let what = opened.generation;
        return Err(io::Error::other(format!(
            "{found} bytes of {what}, not {len} of {generation}"
        )));
    }
    compare(&file, generation, Extent::new(0, len))?;
    drop(file);
    client.close(opened.handle, len)
}

fn run(words: &[&str]) -> io::Result<()> {
    if let ["agent", options @ ..] = words {
        let dir = options.iter().skip_while(|word| **word != "--dir").nth(1).unwrap_or(&"");
        let has = |option| options.contains(&option);
        return aggio_couple::agent::run(dir, has("--ready"), has("--stay")).map(drop);
    }
    if words == ["status"] {
        let directory = std::env::var("AGGIO_COUPLE_DIR").map_err(io::Error::other)?;
        println!("{}", aggio_couple::client::status(&directory)?.unwrap_or_default());
        return Ok(());
    }
    let mut complaints = Default::default();
    let client = Client::connect(&Settings::of_process(&mut complaints))?;
    let number = |text: &str| text.parse::<u64>().map_err(io::Error::other);
    match words {
        [what, path, first, last, bytes, pause @ ..] => {
            let more = pause.get(1..).unwrap_or_default();
            let pause = pause.first().map_or(Ok(0), |pause| number(pause))?;
            for generation in number(first)?..=number(last)? {
                let start = Instant::now();
                let (path, bytes) = (Path::new(path), number(bytes)?);
                let hold = (*what == "hold").then(|| Duration::from_millis(pause));
                if *what == "impatient" && generation == 1 {
                    give_up(&client, path)?;
                }
                match *what {
                    "part" => {
                        let how = (Duration::from_millis(pause), more);
                        part(&client, path, generation, bytes, how)?;
                    }
                    "parts" => {
                        let how = (Duration::from_millis(pause), more);
                        parts(&client, path, generation, bytes, how)?;
                    }
                    "rewrite" => rewrite(&client, path, generation, bytes)?,
                    "write" | "hold" => write(&client, path, generation, bytes, hold)?,
                    _ => read(&client, path, generation, bytes)?,
                }
                println!("{what} {generation} {:?}", start.elapsed());
                std::thread::sleep(Duration::from_millis(pause));
            }
        }
        _ => return Err(io::Error::other("aggio-test-coupled write|read PATH FIRST LAST BYTES")),
    }
    client.goodbye();
    Ok(())
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Err(error) = run(&words) {
        println!("aggio-test-coupled {}: {error} {:?}", words.join(" "), error.raw_os_error());
        std::process::exit(1);
    }
}
