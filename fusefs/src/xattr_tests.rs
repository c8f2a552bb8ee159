//! Extended attributes of files of each kind.

use super::*;
use crate::testing::{container, held};

fn errno<T>(result: Result<T>) -> Option<Errno> {
    result.err().as_ref().and_then(Errno::from_io_error)
}

#[test]
fn attributes_of_aggio_have_values_and_cannot_be_set() {
    assert_eq!(own_name(OsStr::new("user.aggio.kind")), Some("kind"));
    assert_eq!(own_name(OsStr::new("user.kind")), None);
    assert_eq!(errno(refuse_own(OsStr::new("user.aggio.kind"))), Some(Errno::PERM));
    refuse_own(OsStr::new("user.kind")).unwrap();
    assert_eq!(of_mount("backend", Path::new("/data")).unwrap(), b"/data");
    assert_eq!(errno(of_mount("kind", Path::new("/data"))), Some(Errno::NODATA));
    assert_eq!(of_coupled("kind").unwrap(), b"memory");
    assert_eq!(errno(of_coupled("size")), Some(Errno::NODATA));
}

#[test]
fn a_file_is_looked_at_only_for_attributes_that_need_it() {
    let unread = || -> Result<Arc<OpenSet>> { Err(Errno::IO.into()) };
    assert_eq!(of_set("kind", unread).unwrap(), b"set");
    assert_eq!(errno(of_set("files", unread)), Some(Errno::IO));
    assert_eq!(errno(of_set("size", unread)), Some(Errno::NODATA));
    let folder = tempfile::tempdir().unwrap();
    let unread = || -> Result<Attributes> { Err(Errno::IO.into()) };
    let directory = held(folder.path());
    assert_eq!(errno(of_container("files", &directory, unread)), Some(Errno::NODATA));
    assert_eq!(errno(of_container("kind", &directory, unread)), Some(Errno::IO));
}

#[test]
fn attributes_of_a_container_describe_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c");
    container(&path, b"bytes");
    let directory = held(&path);
    let value = |name| {
        let value = of_container(name, &directory, || crate::blob::attributes(&directory));
        String::from_utf8(value.unwrap()).unwrap()
    };
    assert_eq!(
        (value("kind"), value("size"), value("sealed")),
        ("blob".into(), "5".into(), "1".into())
    );
    assert_eq!(value("directory"), path.canonicalize().unwrap().to_str().unwrap());
}

#[test]
fn attributes_are_set_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), b"").unwrap();
    container(&folder.path().join("c"), b"");
    let (own, other) = (OsStr::new("user.aggio.kind"), OsStr::new("user.other"));
    for (name, kind) in [("file", Kind::Plain), ("c", Kind::Container)] {
        let known = Known { fd: held(&folder.path().join(name)), kind };
        if errno(set(&known, other, b"value", 0)) == Some(Errno::OPNOTSUPP) {
            // The file system has no such attributes.
            continue;
        }
        set(&known, own, b"hidden", 0).unwrap();
        assert_eq!(value(&known, other).unwrap(), b"value");
        let names = names(&known).unwrap();
        assert!(names.ends_with(b"user.other\0") && !names.starts_with(OURS.as_bytes()));
        remove(&known, other).unwrap();
        assert_eq!(errno(value(&known, other)), Some(Errno::NODATA));
    }
}

#[test]
fn access_lists_are_those_of_the_file_that_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c");
    container(&path, b"");
    let list = OsStr::new("system.posix_acl_access");
    let passed_on = OsStr::new("system.posix_acl_default");
    let known = |kind| Known { fd: held(&path), kind };
    for kind in [Kind::Container, Kind::Set, Kind::Coupled] {
        assert_eq!(errno(value(&known(kind), list)), Some(Errno::NODATA));
        assert_eq!(errno(value(&known(kind), passed_on)), Some(Errno::NODATA));
    }
    let container = known(Kind::Container);
    assert_eq!(errno(set(&container, list, b"", 0)), Some(Errno::OPNOTSUPP));
    assert_eq!(errno(remove(&container, list)), Some(Errno::OPNOTSUPP));
    assert!(names(&known(Kind::Coupled)).unwrap().is_empty());
}
