//! Sets that are written and read back: random ones, a small one looked at closely, and refusals.

mod random;
mod refusals;
mod sample;
mod stored;

use super::*;
use crate::cdf::{
    Alignment, Attribute, Dimension, Header, Layout, Place, Records, Type, Variable, Version, parse,
};
use crate::error::{Error, Result};
use crate::logical::{Cache, Options};
use crate::set::open_blobs;
use proptest::sample::Index;
use std::sync::{Arc, Mutex};

impl Content for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        out.copy_from_slice(&self[offset as usize..offset as usize + out.len()]);
        Ok(())
    }
}

/// A file in memory that had other bytes before.
struct Memory(Mutex<Vec<u8>>);

impl Memory {
    fn new() -> Self {
        Memory(Mutex::new(vec![0xEE; 99]))
    }
}

impl Sink for Memory {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut file = self.0.lock().unwrap();
        let range = offset as usize..offset as usize + bytes.len();
        assert!(range.end <= file.len(), "inside of the size that was given");
        file[range].copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, size: u64) -> Result<()> {
        if size > 1 << 20 {
            return Err(Error::corrupt("memory", "too large"));
        }
        self.0.lock().unwrap().resize(size as usize, 0);
        Ok(())
    }
}

/// A file and the writer of each of its bytes.
#[derive(Clone, Debug)]
struct Written {
    bytes: Vec<u8>,
    owners: Vec<Option<u32>>,
    writers: u32,
}

impl Written {
    fn owned(&self) -> Vec<Owned> {
        let mut all: Vec<Owned> = Vec::new();
        for (at, owner) in self.owners.iter().enumerate() {
            let at = at as u64;
            match (owner, all.last_mut()) {
                (Some(writer), Some(last)) if last.writer == *writer && last.range.end == at => {
                    last.range.end += 1;
                }
                (Some(writer), _) => all.push(Owned { range: at..at + 1, writer: *writer }),
                (None, _) => {}
            }
        }
        all
    }

    fn outcome(&self, groups: &[Vec<u32>], kind: Kind) -> Outcome {
        let owned = self.owned();
        Plan::of(&self.bytes, &mut owned.into_iter().map(Ok), groups, kind).unwrap()
    }

    fn plan(&self, groups: &[Vec<u32>], kind: Kind) -> Plan {
        match self.outcome(groups, kind) {
            Outcome::Plan(plan) => plan,
            Outcome::Unsuited(what) => panic!("{what}"),
        }
    }

    fn refusal(&self) -> String {
        match self.outcome(&[(0..self.writers).collect()], Kind::Pnetcdf) {
            Outcome::Plan(_) => panic!("a plan"),
            Outcome::Unsuited(what) => what,
        }
    }
}

type Files = Vec<(String, Vec<u8>)>;

/// The files of a set; an error if one is too large.
fn small_files(plan: &Plan, content: &Vec<u8>) -> Result<Files> {
    let file = |subfile: usize| {
        let memory = Memory::new();
        plan.write(subfile, content, &memory)?;
        Ok((file_name("set", subfile), memory.0.into_inner().unwrap()))
    };
    (0..plan.subfiles()).map(file).collect()
}

fn files(plan: &Plan, content: &Vec<u8>) -> Files {
    small_files(plan, content).unwrap()
}

/// The set stands for exactly these bytes, however it is read.
fn stands_for(files: Files, bytes: &[u8], parts: &[(Index, usize)]) {
    let options = Options { cache: Arc::new(Cache::new(200)), ..Options::default() };
    let count = files.len();
    let file = open_blobs(Arc::new(files), count, &options).unwrap();
    assert_eq!(file.size(), bytes.len() as u64);
    let mut all = vec![0xEE; bytes.len() + 5];
    assert_eq!(file.read_at(&mut all, 0).unwrap(), bytes.len());
    assert_eq!(&all[..bytes.len()], bytes);
    let mut end = 0;
    for window in file.windows() {
        let mut part = vec![0xEE; (window.end - window.start) as usize];
        assert_eq!(file.read_window(&mut part, window.start).unwrap(), part.len());
        assert_eq!(part, bytes[window.start as usize..window.end as usize]);
        end = window.end;
    }
    assert_eq!(end, bytes.len() as u64);
    for (start, len) in parts {
        let start = start.index(bytes.len());
        let mut part = vec![0xEE; *len];
        let count = file.read_at(&mut part, start as u64).unwrap();
        assert_eq!(part[..count], bytes[start..bytes.len().min(start + len)]);
    }
}
