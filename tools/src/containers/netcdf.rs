//! The content and the parts of a netCDF file, as text and as JSON.

use aggio_formats::cdf::{Dimension, Header, Variable};
use aggio_formats::files::{Folder, OnDisk};
use aggio_formats::{Coverage, Description, Logical, plain};
use serde_json::{Value, json};
use std::ops::Range;
use std::path::Path;

/// The netCDF file at a path; none if it is no such file.
pub(super) fn of_file(path: &Path) -> Result<Option<Logical>, String> {
    let Some((folder, name)) = Folder::of(path) else { return Ok(None) };
    let files = OnDisk::new(folder, vec![name], 1);
    plain::open(Box::new(files), &path.display().to_string()).map_err(|why| why.to_string())
}

fn length(of: &Dimension, records: u64) -> String {
    if of.length == 0 { format!("unlimited ({records})") } else { of.length.to_string() }
}

fn dimensions(header: &Header, variable: &Variable) -> Vec<String> {
    let names = variable.dimensions.iter().filter_map(|id| header.dimensions.get(*id));
    names.map(|found| found.name.to_string()).collect()
}

/// The decomposition that a variable uses.
fn decomposition<'a>(told: &'a Description, variable: &Variable) -> Option<&'a str> {
    let name = variable.name.to_string();
    let found = told.coverage.iter().find(|found| found.variables.contains(&name));
    found.map(|found| found.name.as_str())
}

fn ranges(list: &[Range<u64>]) -> Vec<String> {
    let each = |range: &Range<u64>| match range.end - range.start {
        1 => range.start.to_string(),
        _ => format!("{}-{}", range.start, range.end - 1),
    };
    list.iter().map(each).collect()
}

fn coverage_line(of: &Coverage) -> String {
    let shape = of.dimensions.join(", ");
    let head = format!(
        "  {}({shape}): {} of {} elements written in {} requests, {} variables\n",
        of.name,
        of.written,
        of.elements,
        of.requests,
        of.variables.len()
    );
    if of.gaps == 0 {
        return head;
    }
    let more = if of.gaps > of.first_gaps.len() as u64 { ", ..." } else { "" };
    let list = ranges(&of.first_gaps).join(", ");
    format!("{head}    nobody wrote {} ranges: {list}{more}\n", of.gaps)
}

/// Lines below the one of the file itself.
pub(super) fn lines(file: &Logical) -> String {
    let (header, told) = (file.header(), file.describe());
    if !file.is_netcdf() {
        let mut text = format!("  {}\n", told.kind);
        for one in &told.files {
            text.push_str(&format!("    {}: {} bytes\n", one.name, one.size));
        }
        text.extend(told.notes.iter().map(|note| format!("  note: {note}\n")));
        return text;
    }
    let mut text = format!("  {}, CDF-{}", told.kind, header.version.number());
    if told.processes > 0 {
        text.push_str(&format!(", written by {} processes", told.processes));
    }
    text.push_str(&format!(", {} records\n", file.records()));
    if told.files.len() > 1 || told.processes > 0 {
        for one in &told.files {
            let blobs =
                if one.blobs > 0 { format!(", {} processes", one.blobs) } else { String::new() };
            let (name, size, records) = (&one.name, one.size, one.records);
            text.push_str(&format!("    {name}: {size} bytes{blobs}, {records} records\n"));
        }
    }
    for dimension in &header.dimensions {
        let length = length(dimension, file.records());
        text.push_str(&format!("  dimension {} = {length}\n", dimension.name));
    }
    for variable in &header.variables {
        let shape = dimensions(header, variable).join(", ");
        let of = decomposition(&told, variable).map_or(String::new(), |name| format!("  {name}"));
        text.push_str(&format!("  {} {}({shape}){of}\n", variable.kind.name(), variable.name));
    }
    text.extend(told.coverage.iter().map(coverage_line));
    text.extend(told.notes.iter().map(|note| format!("  note: {note}\n")));
    text
}

/// The same for programs.
pub(super) fn object(file: &Logical) -> Value {
    let (header, told) = (file.header(), file.describe());
    let of_dimension = |one: &Dimension| {
        let (name, length) = (one.name.to_string(), one.length);
        json!({ "name": name, "length": length, "unlimited": length == 0 })
    };
    let of_variable = |one: &Variable| {
        json!({
            "name": one.name.to_string(),
            "type": one.kind.name(),
            "dimensions": dimensions(header, one),
            "records": header.has_records(one),
            "begin": one.begin,
            "decomposition": decomposition(&told, one),
        })
    };
    let of_coverage = |one: &Coverage| {
        json!({
            "name": one.name,
            "dimensions": one.dimensions,
            "elements": one.elements,
            "written": one.written,
            "requests": one.requests,
            "variables": one.variables,
            "gaps": one.gaps,
            "first_gaps": one.first_gaps.iter().map(|gap| [gap.start, gap.end]).collect::<Vec<_>>(),
        })
    };
    let of_file = |one: &aggio_formats::FileFacts| {
        let (processes, records) = (one.blobs, one.records);
        json!({ "name": one.name, "size": one.size, "processes": processes, "records": records })
    };
    json!({
        "kind": told.kind,
        "version": header.version.number(),
        "records": file.records(),
        "processes": told.processes,
        "files": told.files.iter().map(of_file).collect::<Vec<_>>(),
        "dimensions": header.dimensions.iter().map(of_dimension).collect::<Vec<_>>(),
        "variables": header.variables.iter().map(of_variable).collect::<Vec<_>>(),
        "decompositions": told.coverage.iter().map(of_coverage).collect::<Vec<_>>(),
        "notes": told.notes,
    })
}
