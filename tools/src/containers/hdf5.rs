//! The content of an HDF5 file and its places, as text and as JSON.

use super::hdf5_advice;
use super::in_container::InContainer;
use aggio_formats::Kind;
use aggio_formats::files::{Files, Folder, OnDisk};
use aggio_formats::hdf5::{
    Allocation, Chunk, Chunks, Contents, Dataset, Fill, Layout, Object, OneOf, Source, What,
    is_hdf5,
};
use serde_json::{Map, Value, json};
use std::path::Path;

/// The HDF5 file at a path or in the container there; none if it is no such file.
pub(super) fn of(path: &Path, container: bool) -> Result<Option<Contents>, String> {
    if container {
        return read(&InContainer::open(path)?);
    }
    let Some((folder, name)) = Folder::of(path) else { return Ok(None) };
    read(&OnDisk::new(folder, vec![name], 1))
}

fn read(files: &dyn Files) -> Result<Option<Contents>, String> {
    of_source(&OneOf(files, 0))
}

/// The content of a file, if it is an HDF5 file.
pub(super) fn of_source(source: &dyn Source) -> Result<Option<Contents>, String> {
    let found = match is_hdf5(source) {
        Ok(true) => Contents::read(source).map(Some),
        Ok(false) => Ok(None),
        Err(why) => Err(why),
    };
    found.map_err(|why| why.to_string())
}

/// The damage in a file; unsupported objects are not damage.
pub(super) fn problems(found: &Contents) -> impl Iterator<Item = String> {
    found.objects.iter().filter_map(|object| match &object.what {
        What::Unknown(why) if why.kind != Kind::Unsupported => Some(printable(&why.to_string())),
        _ => None,
    })
}

fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 * 100.0 / all as f64 }
}

fn numbers(list: &[u64]) -> String {
    let all: Vec<String> = list.iter().map(u64::to_string).collect();
    format!("({})", all.join(", "))
}

/// A shape, and how far it may grow.
fn shape(of: &Dataset) -> String {
    let each = of.space.shape().iter().zip(of.space.most());
    let all: Vec<String> = each
        .map(|(length, most)| match most {
            Some(most) if most == length => length.to_string(),
            Some(most) => format!("{length} of at most {most}"),
            None => format!("{length} of unlimited"),
        })
        .collect();
    format!("({})", all.join(", "))
}

fn filters(of: &Dataset) -> Vec<String> {
    of.filters.iter().map(aggio_formats::hdf5::Filter::title).collect()
}

/// Bytes of chunks before filters for each byte in the file.
fn ratio(of: &Dataset, chunks: &Chunks) -> Option<f64> {
    let Layout::Chunked(chunked) = &of.layout else { return None };
    let (before, after) = (chunked.bytes()?.checked_mul(chunks.len())?, chunks.stored());
    (after > 0 && !of.filters.is_empty()).then(|| before as f64 / after as f64)
}

fn fill(of: &Dataset) -> String {
    match &of.filling.value {
        Fill::Zero => "0".into(),
        Fill::Undefined => "undefined".into(),
        Fill::Value(bytes) => of.datatype.show(bytes),
    }
}

fn arranged(of: &Dataset, chunks: &Chunks) -> String {
    match &of.layout {
        Layout::Compact { size } => format!("compact, {size} bytes in the object header"),
        Layout::Contiguous { address: None, .. } => "contiguous, nothing allocated".into(),
        Layout::Contiguous { address: Some(address), .. } => {
            format!("contiguous at {address}, {} bytes", of.bytes().unwrap_or(0))
        }
        Layout::Chunked(chunked) => {
            let all = of.chunks().map_or_else(|| "?".into(), |all| all.to_string());
            let mut text = format!(
                "chunks {} of {} bytes, {}, {} of {all} present, {} bytes",
                numbers(&chunked.shape),
                chunked.bytes().unwrap_or(0),
                chunked.index.name(),
                chunks.len(),
                chunks.stored()
            );
            if !of.filters.is_empty() {
                text += &format!(", {}", filters(of).join(" + "));
            }
            if let Some(ratio) = ratio(of, chunks) {
                text += &format!(" {ratio:.2}:1");
            }
            text
        }
    }
}

/// A text without control characters: names in a file must not reach the terminal as commands.
fn printable(text: &str) -> String {
    let escaped = |one: char| match one.is_control() {
        true => one.escape_default().to_string(),
        false => one.to_string(),
    };
    text.chars().map(escaped).collect()
}

fn line(object: &Object, chunks: bool) -> String {
    let mut text = format!("  {}  ", object.path);
    match &object.what {
        What::Group => text += "group",
        What::Datatype => text += "datatype",
        What::Same(path) => text += &format!("the same as {path}"),
        What::Soft(path) => text += &format!("-> {path}"),
        What::External { file, path } => text += &format!("-> {path} in {file}"),
        What::Unknown(why) => text += &format!("not known: {}", why.what),
        What::Dataset(found, _) => {
            text += &format!("{} {}, fill {}, ", found.datatype, shape(found), fill(found));
        }
    }
    if let What::Dataset(found, list) = &object.what {
        text += &arranged(found, list);
    }
    if object.attributes > 0 {
        text += &format!(", {} attributes", object.attributes);
    }
    text = printable(&text);
    text.push('\n');
    if let (true, What::Dataset(_, list)) = (chunks, &object.what) {
        for chunk in list.iter() {
            let (offset, mask) = (numbers(&chunk.offset), chunk.mask);
            text += &format!("    {offset} at {}, {} bytes", chunk.place, chunk.stored);
            text += &if mask == 0 { "\n".into() } else { format!(", filter mask {mask:#x}\n") };
        }
    }
    text
}

/// Lines below the one of the file itself.
pub(super) fn lines(found: &Contents, unit: u64, chunks: bool) -> String {
    let rest = found.size.saturating_sub(found.data.saturating_add(found.metadata));
    let mut text = format!(
        "  HDF5, superblock {}: {:.1} % data, {:.1} % metadata, {:.1} % other (free space, \
         heaps)\n",
        found.superblock.version,
        percent(found.data, found.size),
        percent(found.metadata, found.size),
        percent(rest, found.size)
    );
    if found.superblock.user_block > 0 {
        text += &format!("  user block of {} bytes\n", found.superblock.user_block);
    }
    if found.superblock.open {
        text += "  open for writing, or not closed by the program that wrote it\n";
    }
    found.objects.iter().for_each(|object| text += &line(object, chunks));
    let advice = hdf5_advice::all(found, unit);
    advice.iter().for_each(|one| text += &format!("  advice: {}\n", printable(one)));
    text
}

fn allocation(of: &Dataset) -> &'static str {
    match of.filling.allocation {
        Allocation::Early => "early",
        Allocation::Late => "late",
        Allocation::Incremental => "incremental",
        Allocation::Unknown => "unknown",
    }
}

fn dataset(map: &mut Map<String, Value>, of: &Dataset, list: &Chunks, chunks: bool) {
    let mut put = |name: &str, value: Value| map.insert(name.into(), value);
    put("shape", of.space.shape().into());
    put("most", of.space.most().into());
    put("type", of.datatype.to_string().into());
    put("element_bytes", of.datatype.size.into());
    put("fill", fill(of).into());
    put("allocation", allocation(of).into());
    match &of.layout {
        Layout::Compact { size } => {
            put("layout", "compact".into());
            put("stored", (*size).into());
        }
        Layout::Contiguous { address, .. } => {
            put("layout", "contiguous".into());
            put("address", (*address).into());
            put("stored", address.and_then(|_| of.bytes()).unwrap_or(0).into());
        }
        Layout::Chunked(chunked) => {
            put("layout", "chunked".into());
            put("index", chunked.index.name().into());
            put("chunk_shape", chunked.shape.clone().into());
            put("chunk_bytes", chunked.bytes().into());
            put("chunks", of.chunks().into());
            put("chunks_present", list.len().into());
            put("stored", list.stored().into());
            put("filters", filters(of).into());
            put("ratio", ratio(of, list).into());
        }
    }
    if chunks && matches!(of.layout, Layout::Chunked(_)) {
        let one = |chunk: Chunk| {
            let Chunk { offset, place, stored, mask } = chunk;
            json!({ "offset": offset, "place": place, "stored": stored, "mask": mask })
        };
        put("map", list.iter().map(one).collect());
    }
}

fn as_json(object: &Object, chunks: bool) -> Value {
    let mut map = Map::new();
    let kind = match &object.what {
        What::Group => "group",
        What::Datatype => "datatype",
        What::Dataset(..) => "dataset",
        What::Same(_) => "same",
        What::Soft(_) | What::External { .. } => "link",
        What::Unknown(_) => "unknown",
    };
    map.insert("path".into(), object.path.clone().into());
    map.insert("kind".into(), kind.into());
    match &object.what {
        What::Dataset(found, list) => dataset(&mut map, found, list, chunks),
        What::Same(path) | What::Soft(path) => {
            map.insert("target".into(), path.clone().into());
        }
        What::External { file, path } => {
            map.insert("file".into(), file.clone().into());
            map.insert("target".into(), path.clone().into());
        }
        What::Unknown(why) => {
            map.insert("why".into(), why.what.clone().into());
        }
        What::Group | What::Datatype => {}
    }
    map.insert("attributes".into(), object.attributes.into());
    map.into()
}

/// The same as JSON.
pub(super) fn object(found: &Contents, unit: u64, chunks: bool) -> Value {
    let objects: Vec<Value> = found.objects.iter().map(|object| as_json(object, chunks)).collect();
    json!({
        "superblock": found.superblock.version,
        "user_block": found.superblock.user_block,
        "open": found.superblock.open,
        "data": found.data,
        "metadata": found.metadata,
        "objects": objects,
        "advice": hdf5_advice::all(found, unit),
    })
}
