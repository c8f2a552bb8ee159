//! `aggio index`: brings a container up to date for readers, and prints its composition.

use super::{at, stored};
use crate::{Answer, progress};
use agg_core::Extent;
use agg_core::blob::Container;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Bytes of a file that are looked at in one step.
const WINDOW: u64 = 1 << 30;

/// Arguments of `aggio index`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Containers
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Change nothing, only describe
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Everything as JSON
    #[arg(long)]
    json: bool,
}

/// The composition of a container.
struct Told {
    size: u64,
    generation: u64,
    sealed: bool,
    pieces: u64,
    holes: u64,
    bytes_in_holes: u64,
    /// Where the last hole ends.
    hole_ends: u64,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let mut answer = Answer::default();
        let mut objects = Vec::new();
        let paths = self.paths.iter().map(|path| (path, stored(path)));
        let all =
            progress::each("reading", paths.collect(), |path, tell| (path, self.tell(path, tell)));
        for (path, told) in all {
            match told {
                Err(why) => answer.findings.push(format!("index: {why}")),
                Ok(told) if self.json => objects.push(object(path, &told)),
                Ok(told) => answer.text.push_str(&line(path, &told)),
            }
        }
        if self.json {
            answer.text = format!("{:#}\n", json!({ "schema": 1, "containers": objects }));
        }
        answer
    }

    fn tell(&self, path: &Path, tell: &(dyn Fn(u64) + Sync)) -> Result<Told, String> {
        let told = |why: agg_core::Error| at(path, why);
        let container = Container::open(path).map_err(told)?;
        if !self.dry_run {
            // The last process that closes a container seals it; while others write this changes
            // nothing.
            container.writer().and_then(agg_core::blob::Writer::close).map_err(told)?;
        }
        let reader = container.reader().map_err(told)?;
        let size = reader.size();
        let mut found = Told {
            size,
            generation: reader.generation(),
            sealed: reader.is_sealed(),
            pieces: 0,
            holes: 0,
            bytes_in_holes: 0,
            hole_ends: 0,
        };
        let mut place = 0;
        while place < size {
            let data = reader.data_from(place).map_err(told)?;
            found.add_hole(Extent::between(place, data));
            let range = Extent::new(data, WINDOW.min(size - data));
            for segment in reader.segments(range).map_err(told)? {
                match segment.source {
                    Some(_) => found.pieces += 1,
                    None => found.add_hole(segment.logical),
                }
            }
            place = range.end();
            tell(place);
        }
        Ok(found)
    }
}

impl Told {
    /// Counts a hole; a hole directly behind another one belongs to it.
    fn add_hole(&mut self, hole: Extent) {
        if hole.is_empty() {
            return;
        }
        self.holes += u64::from(self.holes == 0 || self.hole_ends != hole.offset);
        self.bytes_in_holes += hole.len;
        self.hole_ends = hole.end();
    }
}

fn line(path: &Path, told: &Told) -> String {
    let state = if told.sealed { "sealed" } else { "not sealed: somebody is writing" };
    format!(
        "{}: {} bytes, generation {}, {state}; {} pieces, {} holes of {} bytes\n",
        path.display(),
        told.size,
        told.generation,
        told.pieces,
        told.holes,
        told.bytes_in_holes
    )
}

fn object(path: &Path, told: &Told) -> serde_json::Value {
    json!({
        "path": path.display().to_string(),
        "size": told.size,
        "generation": told.generation,
        "sealed": told.sealed,
        "pieces": told.pieces,
        "holes": told.holes,
        "bytes_in_holes": told.bytes_in_holes,
    })
}
