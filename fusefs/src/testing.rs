//! Backing files for the tests of this crate.

use crate::options::{NewFiles, Options};
use agg_core::blob::{Container, Create, Verify};
use aggio_formats::Holes;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A descriptor that names a file.
pub(crate) fn held(path: &Path) -> Arc<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Arc::new(rustix::fs::open(path, flags, Mode::empty()).unwrap())
}

/// Makes a container with these bytes.
pub(crate) fn container(path: &Path, bytes: &[u8]) -> Container {
    let how = Create { mode: 0o600, exclusive: true, data_crc: true };
    let container = Container::create(path, &how).unwrap();
    let writer = container.writer().unwrap();
    writer.write_at(bytes, 0).unwrap();
    writer.close().unwrap();
    container
}

/// Makes the set `x.h5` of HDF5's subfiling: 2 subfiles with stripes of 4 bytes, 8 bytes in all.
pub(crate) fn set(folder: &Path) {
    std::fs::write(folder.join("x.h5"), b"\x89HDF\r\n\x1a\n...").unwrap();
    std::fs::write(folder.join("x.h5.subfile_7_1_of_2"), b"some").unwrap();
    std::fs::write(folder.join("x.h5.subfile_7_2_of_2"), b"data").unwrap();
    let text = "stripe_size=4\naggregator_count=2\nsubfile_count=2\nhdf5_file=/x.h5\n\
         subfile_dir=/\nx.h5.subfile_7_1_of_2\nx.h5.subfile_7_2_of_2\n";
    std::fs::write(folder.join("x.h5.subfile_7.config"), text).unwrap();
}

/// Shows a directory, which may be changed, with plain files as new ones.
pub(crate) fn options(backend: &Path) -> Options {
    Options {
        backend: backend.into(),
        point: PathBuf::new(),
        write: true,
        allow_other: true,
        new_files: NewFiles::Plain,
        passthrough: false,
        verify: Verify::Never,
        subfiles: false,
        holes: Holes::Zero,
        coupled: None,
    }
}
