//! Files by their names and numbers.

use super::*;
use crate::testing::{container, options, set};
use agg_core::blob::MANIFEST;
use fuser::FileAttr;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::time::UNIX_EPOCH;
use tempfile::TempDir;

const READ: i32 = 0;
const WRITE: i32 = OFlags::WRONLY.bits().cast_signed();

fn at(name: &str) -> Place<'_> {
    Place { parent: ROOT, name: OsStr::new(name) }
}

/// The view of a file, a container and a set.
fn view(write: bool) -> (TempDir, View) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), b"bytes").unwrap();
    container(&folder.path().join("container"), b"bytes");
    set(folder.path());
    let view = View::new(Options { write, ..options(folder.path()) }, 64).unwrap();
    (folder, view)
}

fn open(view: &View, id: u64, flags: i32) -> Result<Opened> {
    view.open(id, flags, |_| Err(Errno::OPNOTSUPP.into()))
}

fn errno<T>(result: Result<T>) -> Option<Errno> {
    result.err().as_ref().and_then(Errno::from_io_error)
}

#[test]
fn a_name_a_number_and_a_handle_lead_to_the_same_attributes() {
    let (_folder, view) = view(true);
    // Opening a file may read it.
    let facts = |shown: &Shown| {
        let attributes = FileAttr { atime: UNIX_EPOCH, ..shown.attributes };
        (attributes, shown.ttl)
    };
    for (name, size) in [("file", 5), ("container", 5), ("x.h5", 8)] {
        let found = view.entry(at(name)).unwrap();
        assert_eq!(found.attributes.size, size, "{name}");
        let opened = open(&view, found.id(), READ).unwrap();
        for handle in [None, Some(opened.handle)] {
            let again = view.attributes(found.id(), handle).unwrap();
            assert_eq!(facts(&again), facts(&found), "{name}");
        }
        view.files.close(opened.handle);
        assert_eq!(view.entry(at(name)).unwrap().id(), found.id(), "{name}");
    }
}

#[test]
fn files_are_opened_for_writing_where_they_may_be_changed() {
    for (write, name, refused) in [
        (true, "file", None),
        (true, "container", None),
        (true, "x.h5", Some(Errno::ROFS)),
        (false, "file", Some(Errno::ROFS)),
        (false, "container", Some(Errno::ROFS)),
    ] {
        let (_folder, view) = view(write);
        let id = view.entry(at(name)).unwrap().id();
        open(&view, id, READ).unwrap();
        assert_eq!(errno(open(&view, id, WRITE)), refused, "{name}");
        let caller = Caller { uid: 0, gid: 0, umask: 0 };
        let cut = Change { size: Some(0), ..Change::default() };
        assert_eq!(errno(view.change(id, None, &cut, caller)), refused, "{name}");
        let size = view.attributes(id, None).unwrap().attributes.size;
        assert_eq!(size == 0, refused.is_none(), "{name}");
        view.files.end_all();
    }
}

#[test]
fn a_container_that_cannot_be_read_is_listed_and_not_found() {
    let (folder, view) = view(true);
    let manifest = folder.path().join("container").join(MANIFEST);
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    assert_eq!(errno(view.entry(at("container"))), Some(Errno::IO));
    let listed = view.entry_in_listing(at("container")).unwrap();
    assert_eq!((listed.attributes.size, listed.ttl), (0, Duration::ZERO));
    assert_eq!(view.entry_in_listing(at("container")).unwrap().id(), listed.id());
    assert_eq!(errno(view.entry_in_listing(at("nothing"))), Some(Errno::NOENT));
}

#[test]
fn attributes_of_aggio_tell_the_kind_of_a_file() {
    let (folder, view) = view(true);
    let value = |id, name: &str| view.value(id, OsStr::new(&format!("user.aggio.{name}")));
    assert_eq!(value(ROOT, "backend").unwrap(), folder.path().as_os_str().as_encoded_bytes());
    for (name, kind) in [("file", None), ("container", Some("blob")), ("x.h5", Some("set"))] {
        let id = view.entry(at(name)).unwrap().id();
        match kind {
            Some(kind) => assert_eq!(value(id, "kind").unwrap(), kind.as_bytes()),
            None => assert_eq!(errno(value(id, "kind")), Some(Errno::NODATA)),
        }
        let own = OsStr::new("user.aggio.kind");
        assert_eq!(errno(view.set_value(id, own, b"x", 0)), Some(Errno::PERM), "{name}");
        assert_eq!(errno(view.remove_value(id, own)), Some(Errno::PERM), "{name}");
    }
    let id = view.entry(at("x.h5")).unwrap().id();
    assert_eq!(value(id, "files").unwrap(), b"2");
    let refused = view.set_value(id, OsStr::new("user.other"), b"x", 0);
    assert_eq!(errno(refused), Some(Errno::ROFS));
}
