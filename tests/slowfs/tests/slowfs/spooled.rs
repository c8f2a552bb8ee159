//! Small writes of programs without MPI that wait in a spool (`AGGIO_POSIX`), on a file system
//! where changed times of files reach the kernel late.

use crate::mounted::Mount;
use aggio_tests::{Directory, compile_plain, kill_when_written, library, names_in, records, tool};
use std::path::Path;
use std::process::{Command, Output};

/// A program has written `count` records to the file `data` of the mount, has synchronised it after
/// the first `synced` of them, and was killed.
fn killed(mount: &Mount, library: &Path, spool: &Path, count: usize, synced: usize) {
    let mut writer = Command::new(compile_plain("ends_of_writers.c", &[]));
    writer.env("LD_PRELOAD", library).env("AGGIO_SPOOL", spool);
    writer.env("AGGIO_POSIX", format!("{}:close", mount.path("").display()));
    writer.env("SYNC_AFTER", synced.to_string());
    kill_when_written(writer.arg(mount.path("data")), count);
}

fn recover(tool: &Path, spool: &Path) -> Output {
    let mut command = Command::new(tool);
    command.env_remove("LD_PRELOAD").arg("recover").arg("--spool").arg(spool);
    command.output().expect("it starts")
}

#[test]
fn what_waited_after_own_writes_is_recovered_unless_somebody_has_changed_the_file() {
    let (Some(library), Some(tool)) = (library(), tool()) else { return };
    let Some(mount) = Mount::start(&[]) else { return };
    // After a first write at once, after a synchronisation, and after the spool was full.
    for (count, synced) in [(100, 0), (100, 50), (20_000, 0)] {
        let spool = Directory::new();
        let what = format!("{count} records, synchronised after {synced}");
        killed(&mount, &library, spool.path(), count, synced);
        let there = std::fs::read(mount.backing("data")).expect("a file").len();
        assert!(synced * 16 <= there && there < count * 16, "{what}: {there} bytes");
        let said = recover(&tool, spool.path());
        assert_eq!(said.status.code(), Some(0), "{what}: {said:?}");
        let found = std::fs::read(mount.backing("data")).expect("a file");
        assert!(found == records(count), "{what}");
        assert_eq!(names_in(spool.path()), [""; 0], "{what}");

        killed(&mount, &library, spool.path(), count, synced);
        std::fs::write(mount.path("data"), "somebody else's").expect("a file");
        let said = recover(&tool, spool.path());
        assert_eq!(said.status.code(), Some(1), "{what}: {said:?}");
        let found = std::fs::read(mount.backing("data")).expect("a file");
        assert_eq!(String::from_utf8_lossy(&found), "somebody else's", "{what}");
        assert_eq!(names_in(spool.path()).len(), 1, "{what}");
    }
}
