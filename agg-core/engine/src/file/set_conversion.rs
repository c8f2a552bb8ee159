//! Converts a container to a set of files, once all ranks have closed it.

use super::agreement::{Kind, Words, from_rank, meet};
use crate::Engine;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_comm::tags::TagBlock;
use aggio_comm::task::place::on_caller;
use aggio_comm::transport::{Nodes, Transport};
use aggio_container::blob::{Layout, Part, Recast, Sealing};
use aggio_store::driver::Driver;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The message form; zeros for a rank without a request.
fn to_words(sealing: Option<Sealing>) -> Words {
    match sealing {
        Some(Sealing { layout, files, log, durable }) if layout != Layout::Container => {
            [layout as u64, files.into(), log, durable.into()]
        }
        _ => [0; 4],
    }
}

fn from_words(words: &Words) -> Sealing {
    let [layout, files, log, durable] = *words;
    let (layout, files) = (Layout::from_number(layout), u32::try_from(files).unwrap_or(0));
    Sealing { layout, files, log, durable: durable != 0 }
}

/// Groups of ranks that share a file: the ranks of a node, or equal numbers of neighbours.
fn groups(nodes: &Nodes, files: u32) -> Vec<Vec<u32>> {
    let ranks = nodes.size();
    if files > 0 {
        let files = (files as usize).min(ranks);
        let first = |file: usize| (file * ranks / files) as u32;
        return (0..files).map(|file| (first(file)..first(file + 1)).collect()).collect();
    }
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut number = std::collections::HashMap::new();
    for rank in 0..ranks {
        let group = *number.entry(nodes.of(rank)).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(rank as u32);
    }
    groups
}

/// Advice for a user who requested a set of files.
#[derive(Clone, Copy)]
enum Cure {
    /// No set can be made of these bytes, but a file can.
    File,
    /// A set of this layout can be made later.
    Again(Layout),
}

impl Cure {
    fn words(self, path: &str) -> String {
        match self {
            Cure::File => {
                let command = Layout::Container.command(path);
                format!("all bytes can be read there; a file is made of it by: {command}")
            }
            Cure::Again(layout) => format!("the set is made of it by: {}", layout.command(path)),
        }
    }
}

/// The conversion of one file, if it is a container that a set was requested of.
pub(super) struct SetConversion {
    engine: Arc<Engine>,
    transport: Arc<dyn Transport>,
    /// The file's name for the system.
    path: String,
    /// Why no set of files was made of it, and the cure, if one was asked for.
    no_set: OnceLock<String>,
}

impl SetConversion {
    /// That of a file just opened.
    pub(super) fn new(engine: Arc<Engine>, transport: Arc<dyn Transport>, path: String) -> Self {
        Self { engine, transport, path, no_set: OnceLock::new() }
    }

    /// The requested form of this rank's container; read before it is closed.
    pub(super) fn request(driver: &dyn Driver) -> Words {
        to_words(driver.sealing())
    }

    /// Converts the container, which all ranks have closed, to the requested form, with the same
    /// result on all ranks. Returns the message about it on rank 0. On any failure the container
    /// stays and has all bytes.
    ///
    /// # Errors
    /// The container stays one, and logs on the nodes cannot be moved into it; on every rank.
    pub(super) async fn seal(&self, told: &[Words], tags: &TagBlock) -> Result<Option<String>> {
        let Some(recast) = self.recast(told) else { return Ok(None) };
        on_caller().await;
        let rank = self.transport.rank();
        let mine = recast.groups.iter().position(|group| group.first() == Some(&(rank as u32)));
        let made = mine.map(|part| recast.write(self.engine.recaster()?, part)).transpose();
        let (words, mut why) = match &made {
            Ok(None) => ([0; 4], None),
            Ok(Some(Part::Made { generation })) => ([1, *generation, 0, 0], None),
            Ok(Some(Part::Unsuited(why))) => ([2, 0, 0, 0], Some(why.clone())),
            Err(_) => ([0; 4], None),
        };
        let all = meet(&*self.transport, tags, Kind::Close, words, made.map(drop)).await;
        let generation = agreed_generation(&all);
        let published = from_rank(&*self.transport, tags, 0, || {
            let published = generation.and_then(|known| match known {
                Some(generation) => {
                    self.engine.recaster().and_then(|to| recast.publish(to, generation))
                }
                None => {
                    Err(Error::new(ErrorClass::UnsupportedOperation, "the layout does not suit"))
                }
            });
            published.inspect_err(|_| recast.discard()).map(|()| [0; 4])
        });
        match published.await {
            Ok(_) => Ok(Some(format!("became {} blobs", recast.groups.len()))),
            Err(error) => {
                let drain = || recast.drain().map(|()| [0; 4]);
                let drained = from_rank(&*self.transport, tags, 0, drain).await;
                let cure = if why.is_some() { Cure::File } else { Cure::Again(recast.layout) };
                let why = why.get_or_insert_with(|| error.to_string());
                let why = format!("stays a container: {why}");
                if rank == 0 {
                    self.stays(&why, cure);
                }
                drained.map(|_| Some(why))
            }
        }
    }

    /// Records, for the end of the program, why no set was made, and the advice.
    fn stays(&self, why: &str, cure: Cure) {
        let path = &*self.path;
        let _ = self.no_set.set(format!("{path}: {why}; {}", cure.words(path)));
    }

    /// The same for a container that its rank 0 closes without the others; whether this is one that
    /// was to become a set.
    pub(super) fn stays_because_it_was_open(&self, driver: &dyn Driver) -> bool {
        let requested = driver.sealing().filter(|one| one.layout != Layout::Container);
        if let (Some(requested), 0) = (requested, self.transport.rank()) {
            let why = "stays a container: the program did not close it before the end of MPI";
            self.stays(why, Cure::Again(requested.layout));
        }
        requested.is_some()
    }

    /// Moves logs from a directory of the node into the container, which stays one. A process that
    /// still writes a log moves its own.
    ///
    /// # Errors
    /// It cannot be stored.
    pub(super) fn drain_logs(&self) -> Result<()> {
        match aggio_container::blob::drain(Path::new(&self.path)) {
            // If the container was removed, its logs were removed with it.
            Err(error) if matches!(error.errno(), libc::EBUSY | libc::ENOENT) => Ok(()),
            drained => drained.map(drop),
        }
    }

    /// Why no set of files was made, and the cure; on one rank, once the file is closed.
    pub(super) fn no_set(&self) -> Option<&str> {
        self.no_set.get().map(String::as_str)
    }

    fn recast(&self, told: &[Words]) -> Option<Recast> {
        let all = || told.iter().map(from_words);
        let requested = all().find(|one| one.layout != Layout::Container)?;
        Some(Recast {
            path: Path::new(&self.path).to_path_buf(),
            layout: requested.layout,
            logs: all().map(|one| one.log).collect(),
            groups: groups(self.transport.nodes(), requested.files),
            durable: all().any(|one| one.durable),
        })
    }
}

/// The generation from which all files were made; `None` if the layout does not suit.
fn agreed_generation(all: &Result<Vec<Words>>) -> Result<Option<u64>> {
    let all = all.as_ref().map_err(Clone::clone)?;
    let mut made = all.iter().filter(|words| words[0] != 0);
    let Some(first) = made.next() else {
        return Err(Error::new(ErrorClass::Intern, "no rank made a file of the set"));
    };
    if made.clone().chain([first]).any(|words| words[0] == 2) {
        return Ok(None);
    }
    if made.any(|words| words[1] != first[1]) {
        return Err(Error::new(ErrorClass::FileInUse, "the container changed meanwhile"));
    }
    Ok(Some(first[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_nodes_or_equal_numbers_of_neighbours() {
        let nodes = Nodes::by_name("a b a c b a c".split(' ').map(Some));
        assert_eq!(groups(&nodes, 0), [vec![0, 2, 5], vec![1, 4], vec![3, 6]]);
        assert_eq!(groups(&nodes, 2), [vec![0, 1, 2], vec![3, 4, 5, 6]]);
        assert_eq!(groups(&nodes, 100).len(), 7);
    }

    #[test]
    fn files_of_different_generations_do_not_belong_together() {
        let made = |generation| [1, generation, 0, 0];
        assert_eq!(agreed_generation(&Ok(vec![made(3), [0; 4], made(3)])).unwrap(), Some(3));
        assert_eq!(agreed_generation(&Ok(vec![made(3), [2, 0, 0, 0]])).unwrap(), None);
        agreed_generation(&Ok(vec![made(3), made(4)])).unwrap_err();
        agreed_generation(&Ok(vec![[0; 4]])).unwrap_err();
    }
}
