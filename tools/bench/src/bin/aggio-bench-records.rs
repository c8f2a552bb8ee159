//! Writes records by the calls of the C library, and prints how many seconds that took.
//!
//! ```text
//! aggio-bench-records calls COUNT                          writes of one byte to /dev/null
//! aggio-bench-records one FILE LENGTH COUNT                records in a row, by `write`
//! aggio-bench-records reads FILE LENGTH COUNT              as many records in a row, by `read`
//! aggio-bench-records strided FILE LENGTH COUNT PROCESSES  one file, records by turns, by `pwrite`
//! aggio-bench-records own FILE LENGTH COUNT PROCESSES      a file for each process
//! ```
//!
//! Opening and closing count, the start of processes does not. Files are not synchronised. The
//! program does not depend on aggio: it is run with and without the library.

use std::fs::{File, OpenOptions};
use std::io::{Error, Read, Result, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::FileExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(Some(seconds)) => println!("{seconds}"),
        Ok(None) => {}
        Err(error) => {
            eprintln!("aggio-bench-records {}: {error}", words.join(" "));
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn run(words: &[String]) -> Result<Option<f64>> {
    let number = |index: usize| -> Result<u64> {
        let word = words.get(index).ok_or(Error::other("an argument is missing"))?;
        word.parse().map_err(|_| Error::other(format!("{word} is no number")))
    };
    match words.first().map(String::as_str) {
        Some("calls") => calls(number(1)?).map(Some),
        Some("one") => one(&words[1], number(2)?, number(3)?).map(Some),
        Some("reads") => reads(&words[1], number(2)?, number(3)?).map(Some),
        Some("strided" | "own") => together(words, number(4)?).map(Some),
        Some("part") => {
            part(words, [number(3)?, number(4)?, number(5)?, number(6)?]).map(|()| None)
        }
        _ => Err(Error::other("wanted: calls, one, reads, strided or own")),
    }
}

fn calls(count: u64) -> Result<f64> {
    let mut file = OpenOptions::new().write(true).open("/dev/null")?;
    let start = Instant::now();
    for _ in 0..count {
        file.write_all(b"x")?;
    }
    Ok(start.elapsed().as_secs_f64())
}

fn one(path: &str, length: u64, count: u64) -> Result<f64> {
    let record = aligned(length);
    let start = Instant::now();
    let mut file = File::create(path)?;
    for _ in 0..count {
        file.write_all(record.bytes())?;
    }
    close(file)?;
    Ok(start.elapsed().as_secs_f64())
}

fn reads(path: &str, length: u64, count: u64) -> Result<f64> {
    std::fs::write(path, vec![b'r'; (length * count) as usize])?;
    let mut record = vec![0; length as usize];
    let start = Instant::now();
    let mut file = File::open(path)?;
    for _ in 0..count {
        file.read_exact(&mut record)?;
    }
    close(file)?;
    Ok(start.elapsed().as_secs_f64())
}

/// Starts processes, which wait; lets them all go; until the last has ended.
fn together(words: &[String], processes: u64) -> Result<f64> {
    let program = std::env::current_exe()?;
    let mut children = Vec::new();
    for index in 0..processes {
        let mut command = Command::new(&program);
        command.arg("part").args(words).arg(index.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        // A child says a byte when it is ready.
        let mut ready = [0];
        child.stdout.as_mut().ok_or(Error::other("no pipe"))?.read_exact(&mut ready)?;
        children.push(child);
    }
    let start = Instant::now();
    children.iter_mut().for_each(|child| drop(child.stdin.take()));
    for child in &mut children {
        if !child.wait()?.success() {
            return Err(Error::other("a process failed"));
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

/// One process of several: `part WHAT FILE LENGTH COUNT PROCESSES INDEX`.
fn part(words: &[String], [length, count, processes, index]: [u64; 4]) -> Result<()> {
    let (own, record) = (words[1] == "own", aligned(length));
    std::io::stdout().write_all(b"r")?;
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let path = if own { format!("{}.{index}", words[2]) } else { words[2].clone() };
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    for step in 0..count {
        let place = if own { step } else { step * processes + index };
        file.write_all_at(record.bytes(), place * length)?;
    }
    close(file)
}

/// Bytes that begin at a page.
struct Aligned {
    room: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn bytes(&self) -> &[u8] {
        &self.room[self.start..self.start + self.length]
    }
}

fn aligned(length: u64) -> Aligned {
    let length = length as usize;
    let room = vec![b'r'; length + 4096];
    let start = room.as_ptr().align_offset(4096);
    Aligned { room, start, length }
}

/// Errors that were kept for the end count.
fn close(file: File) -> Result<()> {
    nix::unistd::close(file.into_raw_fd()).map_err(Error::from)
}
