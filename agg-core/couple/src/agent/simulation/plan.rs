//! Random programs: their nodes, their files and the rules of these.

use super::chance::Chance;
use super::group::{Group, Target};
use super::model::Model;
use super::reader::Reader;
use super::records;
use super::world::World;
use super::writer::Writer;
use crate::registry::Options;
use aggio_config::settings::couple::{Persist, Pick};
use std::path::PathBuf;
use std::rc::Rc;

/// A directory in memory, if there is one.
pub(super) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn options(chance: &Chance, most: usize) -> Options {
    let pick = chance.one(&[Pick::Next, Pick::Next, Pick::Latest]);
    let keep = chance.one(&[0, 0, 1, 2, 5]);
    // All contents of a file that readers may have early are remembered.
    let at_sync = most < 30_000 && chance.once_in(3);
    let persist = chance.one(&[Persist::No, Persist::No, Persist::Yes, Persist::After]);
    Options { pick, keep, at_sync, persist, ..Options::default() }
}

/// Runs the programs of a seed.
pub(super) fn run(seed: u64) {
    let (chance, scratch) = (Chance::new(seed ^ 0x5eed), scratch());
    let nodes = chance.one(&[1, 2, 2, 2, 3, 3, 4, 6]);
    let mut world = World::new(seed, nodes, &scratch.path().join("place"));
    let model = Rc::new(Model::default());
    let (groups, mut all) = (chance.one(&[1, 1, 1, 2]), Vec::new());
    for group in 0..groups {
        let name = |file: usize| scratch.path().join(format!("f{group}{file}"));
        let targets: Vec<Rc<Target>> =
            (0..chance.one(&[1, 1, 2])).map(|file| target(&chance, &model, name(file))).collect();
        all.extend(targets.iter().cloned());
        begin_group(&chance, &mut world, (&model, targets), group);
    }
    if chance.once_in(4) {
        records::begin(&chance, &mut world, scratch.path().join("series"));
    }
    world.run();
    all.iter().for_each(|target| check_stored(target));
    world.check_rest();
}

/// Checks the file on disk when all programs have ended.
fn check_stored(target: &Target) {
    let Some(last) = target.file.newest() else { return };
    let must_be_there = match target.options.persist {
        Persist::No => false,
        Persist::Yes => true,
        Persist::After => last.is_read.get(),
    };
    let name = String::from_utf8(target.path.clone()).unwrap();
    match std::fs::read(&name) {
        Ok(found) if must_be_there => {
            let wrong = last.bytes.borrow().is_not(&found);
            assert!(wrong.is_none(), "{name} on disk: {}", wrong.unwrap_or_default());
        }
        Ok(_) => assert!(target.options.persist != Persist::No, "{name} is on disk"),
        Err(error) => assert!(!must_be_there, "{name} is not on disk: {error}"),
    }
}

fn target(chance: &Chance, model: &Model, path: PathBuf) -> Rc<Target> {
    let most = chance.one(&[40, 3000, 20_000, 20_000, 70_000, 600_000]);
    let path = path.into_os_string().into_encoded_bytes();
    let (options, file) = (options(chance, most), model.file(&path));
    Rc::new(Target { path, options, file, most })
}

fn begin_group(
    chance: &Chance,
    world: &mut World,
    (model, targets): (&Rc<Model>, Vec<Rc<Target>>),
    group: usize,
) {
    let (nodes, files) = (world.agents.len(), targets.len());
    // Writers are ranks of one program, or programs of their own.
    let are_alone = chance.once_in(4);
    let (makings, members) = (files * (1 + chance.of(0..3)), 1 + chance.of(0..5));
    let one = Group::new(targets.clone(), (makings, members, are_alone), model.clone());
    let mpis = chance.of(0..3);
    let some_nodes = 1 + chance.of(0..nodes);
    let first = chance.of(0..nodes);
    for who in 0..members {
        let node = (first + chance.of(0..some_nodes)) % nodes;
        let mpi = mpis == 0 || mpis == 1 && chance.once_in(2);
        let name =
            format!("writer {who} of group {group} on {node}{}", if mpi { ", MPI" } else { "" });
        let (job, ranks) = match are_alone {
            true => (format!("w{group}.{who}"), 1),
            false => (format!("w{group}"), members as u32),
        };
        let group = one.clone();
        world.enter(node, (&job, ranks, name), |program| Writer { program, group, who, mpi }.run());
    }
    for number in 0..chance.of(1..4) {
        let (target, node, mpi) =
            (targets[chance.of(0..files)].clone(), chance.of(0..nodes), chance.once_in(2));
        let last = (makings / files) as u64;
        let late = if chance.once_in(3) { chance.of(0..last as usize + 1) as u64 } else { 0 };
        let name =
            format!("reader {number} of group {group} on {node}{}", if mpi { ", MPI" } else { "" });
        let job = format!("r{group}.{number}");
        world.enter(node, (&job, 1, name), |program| {
            Reader { program, target, last, mpi, late }.run()
        });
    }
}
