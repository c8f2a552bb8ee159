//! The state of the agent, as JSON for `aggio couple`.

use super::lifetime::Lifetime;
use super::owner::Owner;
use super::spill;
use super::survive::Survivors;
use crate::areas::Areas;
use crate::peers::Peers;
use crate::registry::{Area, Home, Registry, State};
use std::fmt::{self, Write};

/// A text that is written as JSON.
pub(super) struct Json(String);

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// `text` as a string of JSON.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// The state of an agent.
pub(super) fn status(owner: &Owner, peers: Option<&Peers>, lifetime: &Lifetime) -> Json {
    let life = &owner.life;
    let processes = life.own.registry.processes.values().map(|who| quoted(&who.label));
    let files = life.own.registry.files.names.iter().filter_map(|(path, name)| {
        let is_known = !name.generations.is_empty() || !name.readers.is_empty();
        (is_known || name.dead.is_some()).then(|| {
            let path = quoted(&String::from_utf8_lossy(path));
            let generations = list(name.generations.values().filter_map(|a| {
                generation(*a, &life.own.registry, &life.own.memory.areas, &life.survivors)
            }));
            let readers = name.readers.values().flat_map(|reader| &reader.processes);
            let readers = list(readers.map(|(process, position)| {
                let who = life.own.registry.processes.get(process).map_or("", |who| &who.label);
                let (at, open) = (position.at, position.open > 0);
                format!("{{\"process\":{},\"generation\":{at},\"open\":{open}}}", quoted(who))
            }));
            let dead = name.dead.as_ref().map_or("null".into(), |dead| {
                let (number, writer) = (dead.number, quoted(&dead.writer));
                format!("{{\"generation\":{number},\"writer\":{writer}}}")
            });
            format!(
                "{{\"path\":{path},\"last\":{},\"generations\":{generations},\
                 \"readers\":{readers},\"dead\":{dead}}}",
                name.last
            )
        })
    });
    let full = spill::full(&life.own.registry).map(|(directory, error)| {
        format!("{{\"directory\":{},\"error\":{}}}", quoted(directory), quoted(&error.to_string()))
    });
    let waits = owner.waits.describe(&life.own.registry, &life.own.memory.areas);
    Json(format!(
        "{{\"schema\":1,\"process\":{},\"directory\":{},\"seconds\":{:.1},\"bytes\":{},\
         \"memory\":{},\"peak\":{},\"moved\":{},\"copies\":{},\"kept\":{},\"fetches\":{},\
         \"messages\":{},\"link\":{},\"full\":{},\"written\":{},\"processes\":{},\"files\":{},\
         \"waits\":{}}}",
        std::process::id(),
        quoted(&lifetime.socket_watch.place().path().to_string_lossy()),
        lifetime.seconds(),
        life.own.memory.areas.bytes(),
        life.own.memory.all_memory(),
        life.own.memory.peak,
        life.own.memory.areas.moved_bytes(),
        peers.map_or(0, |peers| peers.replication.replicas.areas.bytes()),
        peers.map_or(0, |peers| peers.replication.keeps.memory()),
        peers.map_or(0, |peers| peers.replication.takes.sent),
        peers.map_or(0, |peers| peers.nodes.said),
        peers.map_or("null".into(), |peers| quoted(peers.nodes.kind().name())),
        list(full),
        life.own.memory.written,
        list(processes),
        list(files),
        list(waits.map(|text| quoted(&text))),
    ))
}

/// The state of one generation.
fn generation(
    area: Area,
    registry: &Registry,
    areas: &Areas,
    survivors: &Survivors,
) -> Option<String> {
    let generation = registry.files.generations.get(&area)?;
    let stat = areas.stat(area, generation.number).unwrap_or_default();
    let state = match (generation.state, generation.early.published) {
        (State::Complete, _) => "complete",
        (State::Writing, true) => "readable",
        (State::Writing, false) => "being written",
    };
    let open = registry.opens.values().filter(|open| open.area == area).count();
    Some(format!(
        "{{\"number\":{},\"state\":\"{state}\",\"size\":{},\"bytes\":{},\"home\":{},\
         \"writer\":{},\"open\":{open},\"read\":{}}}",
        generation.number,
        stat.size,
        512 * stat.blocks,
        quoted(match &generation.home {
            Home::Directory(directory, _) => directory,
            Home::Memory | Home::Moving(_) => survivors.directory(area).unwrap_or("memory"),
        }),
        quoted(&generation.writers.maker),
        generation.read,
    ))
}
