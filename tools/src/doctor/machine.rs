//! The machine: file system, FUSE, limits, shared memory, dead mounts.

use super::Finding;
use crate::elf;
use agg_core::diagnostics::Diagnostics;
use agg_core::hints::Sources;
use agg_core::settings::Settings;
use aggio_fusefs::mounts;
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How FUSE is looked for.
const OPENED: &str = "open /dev/fuse to read and write";
/// Bytes in a mebibyte.
const MIB: u64 = 1 << 20;
/// The least shared memory that is not little.
const LITTLE_SHARED: u64 = 256 * MIB;
/// The least number of descriptors that is not small.
const FEW_DESCRIPTORS: u64 = 1024;

/// All checks of the machine.
pub(super) fn all() -> Vec<Finding> {
    let mut findings = vec![file_system(), fuse(), allow_other(), descriptors()];
    findings.extend(file_size());
    findings.extend([shared_memory(), environment()]);
    findings.extend(dead_mounts());
    findings
}

/// Names of file systems by the numbers that the kernel gives them.
fn name_of(kind: i64) -> &'static str {
    match kind {
        0xef53 => "ext4",
        0x0102_1994 => "tmpfs",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x6969 => "nfs",
        0x0bd0_0bd0 => "lustre",
        0x4750_4653 => "gpfs",
        0x1983_0326 => "beegfs",
        0x00c3_6400 => "ceph",
        0x6573_5546 => "fuse",
        0x794c_7630 => "overlayfs",
        0x2fc1_2fc1 => "zfs",
        0xff53_4d42 | 0xfe53_4d42 => "cifs",
        0x0102_1997 => "9p",
        _ => "another file system",
    }
}

fn file_system() -> Finding {
    let here = std::env::current_dir().unwrap_or_else(|_| ".".into());
    let kind = match rustix::fs::statfs(&here) {
        Ok(found) => name_of(found.f_type),
        Err(why) => {
            let fix = "change to a directory that can be read";
            return Finding::fail("directory", format!("{}: {why}", here.display()), fix);
        }
    };
    let found = format!("{}: {kind}", here.display());
    match kind {
        "nfs" | "cifs" | "9p" => Finding::warn(
            "directory",
            found,
            "several hosts writing one file here see each other's bytes late; write to a parallel \
                file system",
        ),
        "overlayfs" => Finding::warn(
            "directory",
            found,
            "the layer of a container image is slow and goes away with it; bind a directory of the \
                host",
        ),
        _ => Finding::pass("directory", format!("statfs {}", here.display()), found),
    }
}

fn fuse() -> Finding {
    let device = Path::new("/dev/fuse");
    if !device.exists() {
        let fix = "modprobe fuse, or give the container --device /dev/fuse; aggio cat and merge \
            need none";
        return Finding::warn("fuse", "no /dev/fuse", fix);
    }
    let root = rustix::process::geteuid().is_root();
    if let Err(why) = File::options().read(true).write(true).open(device) {
        let fix = "chmod 666 /dev/fuse (as root); aggio cat and merge work without";
        return Finding::warn("fuse", format!("/dev/fuse: {why}"), fix);
    }
    match elf::find("fusermount3") {
        Some(path) if root => {
            Finding::pass("fuse", OPENED, format!("/dev/fuse, {}", path.display()))
        }
        None if root => Finding::pass("fuse", OPENED, "/dev/fuse (root needs no fusermount3)"),
        None => Finding::warn("fuse", "no fusermount3", "install fuse3"),
        Some(path) => match path.metadata() {
            Ok(found) if found.mode() & 0o4000 != 0 && found.uid() == 0 => {
                let ran = format!("{OPENED}, stat {}", path.display());
                Finding::pass("fuse", ran, format!("/dev/fuse, {}", path.display()))
            }
            _ => Finding::warn(
                "fuse",
                format!("{} is not set-user-id root", path.display()),
                "chmod u+s (as root), or mount in a user namespace",
            ),
        },
    }
}

fn allow_other() -> Finding {
    let text = std::fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    let allowed = text.lines().any(|line| line.trim() == "user_allow_other");
    let words = match (allowed, rustix::process::geteuid().is_root()) {
        (true, _) | (_, true) => "mounts may be opened to other users (--allow-other)",
        _ => "mounts are for their owner only (no user_allow_other in /etc/fuse.conf)",
    };
    Finding::pass("fuse users", "grep user_allow_other /etc/fuse.conf", words)
}

fn descriptors() -> Finding {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or("no limit".into(), |most| most.to_string());
    match limit.current {
        Some(now) if now < FEW_DESCRIPTORS => {
            Finding::warn("descriptors", format!("{now} open files"), format!("ulimit -n {most}"))
        }
        now => {
            let now = now.map_or("no limit".into(), |now| now.to_string());
            let found = format!("{now} open files, at most {most}");
            Finding::pass("descriptors", "ulimit -n, ulimit -Hn", found)
        }
    }
}

fn file_size() -> Option<Finding> {
    let now = getrlimit(Resource::Fsize).current?;
    let found = format!("files may have {now} bytes");
    Some(Finding::warn("file size", found, "ulimit -f unlimited"))
}

fn shared_memory() -> Finding {
    let fix = "mount -o remount,size=50% /dev/shm, or --shm-size for containers";
    let free = match rustix::fs::statvfs("/dev/shm") {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(why) => return Finding::warn("/dev/shm", why.to_string(), fix),
    };
    let found = format!("{} MiB free", free / MIB);
    if free < LITTLE_SHARED {
        return Finding::warn("/dev/shm", found, fix);
    }
    Finding::pass("/dev/shm", "statvfs /dev/shm", found)
}

fn environment() -> Finding {
    let mut complaints = Diagnostics::default();
    let settings = Settings::of_process(&mut complaints);
    Sources::of_process(&mut complaints);
    if let Some(first) = complaints.0.first() {
        return Finding::warn("variables", first.to_string(), "see aggio env and aggio hints");
    }
    if !settings.on {
        return Finding::warn("variables", "AGGIO=off: nothing is served", "unset AGGIO");
    }
    Finding::pass("variables", "aggio env", "all variables are understood")
}

fn dead_mounts() -> Vec<Finding> {
    let mounts = mounts::all().unwrap_or_default();
    let dead = mounts.into_iter().filter(|mounted| mounts::is_dead(&mounted.point));
    dead.map(|mounted| {
        let point = mounted.point.display();
        let found = format!("{point}: the process of this mount is gone");
        Finding::warn("mount", found, format!("aggio umount {point}"))
    })
    .collect()
}
