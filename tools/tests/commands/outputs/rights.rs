//! Two users: nobody's file runs with rights that its owner did not give it, and nothing that
//! another user put in the way is used.

use super::place::{OTHER, Place, done, names, rights};
use crate::mounted::{aggio, container, pattern};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

/// The permissions that a container says its file has.
fn told_mode(container: &str) -> u32 {
    agg_core::blob::Container::open(container.as_ref()).unwrap().attributes().unwrap().mode
}

#[test]
fn no_file_runs_with_rights_that_its_owner_did_not_give_it() {
    let Some(place) = Place::for_two() else { return };
    let path = |name: &str| place.path(name);
    std::fs::write(path("tool"), pattern(100_000)).unwrap();
    place.give("tool", 0o6755);
    // His own copies keep the bits.
    done(&place.by_other(&["split", &path("tool"), &path("his")]));
    assert_eq!(told_mode(&path("his")), 0o6755);
    done(&place.by_other(&["merge", &path("his"), &path("his.out")]));
    assert_eq!(rights(&path("his.out")), (OTHER, 0o6755));
    // Those of another user, root above all, lose them.
    done(&aggio(&["merge", &path("his"), &path("roots")]));
    assert_eq!(rights(&path("roots")), (0, 0o755));
    done(&aggio(&["merge", "--resume", &path("his"), &path("roots2")]));
    assert_eq!(rights(&path("roots2")), (0, 0o755));
    done(&aggio(&["merge", "--force", &path("his"), &path("his.out")]));
    assert_eq!(rights(&path("his.out")), (0, 0o755));
    done(&aggio(&["split", &path("tool"), &path("split")]));
    assert_eq!(told_mode(&path("split")), 0o755);
    // Set-id bits are dropped: users other than the owner may have written the bytes.
    done(&aggio(&["split", &path("roots"), &path("open")]));
    let open = agg_core::blob::Container::open(path("open").as_ref()).unwrap();
    open.set_mode(0o4775).unwrap();
    done(&aggio(&["merge", &path("open"), &path("open.out")]));
    assert_eq!(rights(&path("open.out")), (0, 0o775));
}

#[test]
fn nothing_that_another_user_put_under_a_name_is_used() {
    let Some(place) = Place::for_two() else { return };
    let path = |name: &str| place.path(name);
    let bytes = pattern(3_000_000);
    container(path("blob").as_ref(), &bytes, 5000);
    std::fs::write(path("plain"), &bytes).unwrap();
    // Names that older versions used, and one like ours.
    for name in [".out.aggio-merging", ".out.aggio-merged"] {
        std::fs::write(path(name), vec![9; bytes.len()]).unwrap();
        place.give(name, 0o666);
    }
    let forged = ".aggio-merge-0123456789abcdef0123456789abcdef";
    std::fs::create_dir(path(forged)).unwrap();
    std::fs::write(path(&format!("{forged}/data")), vec![9; bytes.len()]).unwrap();
    std::fs::write(path(&format!("{forged}/journal")), vec![b'x'; 4096]).unwrap();
    let parts = [format!("{forged}/data"), format!("{forged}/journal")];
    parts.iter().for_each(|part| place.give(part, 0o600));
    place.give(forged, 0o700);
    let before = place.names();
    for (number, how) in [&["--threads", "2"][..], &["--resume"]].into_iter().enumerate() {
        let out = path(&format!("out{number}"));
        std::fs::rename(path(".out.aggio-merging"), path(&format!(".out{number}.aggio-merging")))
            .unwrap();
        done(&aggio(&[&["merge"], how, &[&path("blob"), &out]].concat()));
        assert!(std::fs::read(&out).unwrap() == bytes, "{how:?}");
        assert_eq!(rights(&out).0, 0);
        std::fs::rename(path(&format!(".out{number}.aggio-merging")), path(".out.aggio-merging"))
            .unwrap();
        std::fs::remove_file(&out).unwrap();
        assert_eq!(place.names(), before, "{how:?}");
    }
    done(&aggio(&["split", &path("plain"), &path("split")]));
    assert_eq!(rights(&path("split")).0, 0);
    std::fs::remove_dir_all(path("split")).unwrap();
    assert_eq!(place.names(), before, "split");
}

#[test]
fn a_link_to_somebody_elses_file_is_no_part_of_a_container() {
    let Some(place) = Place::for_two() else { return };
    let path = |name: &str| place.path(name);
    std::fs::write(path("plain"), pattern(100_000)).unwrap();
    place.give("plain", 0o644);
    let log = |blob: &str| {
        let names = names(path(blob).as_ref());
        names.into_iter().find(|name| name.ends_with(".log")).unwrap()
    };
    for part in ["order", "log", "aggio-manifest"] {
        let blob = path(part);
        done(&place.by_other(&["split", &path("plain"), &blob]));
        let part = if part == "log" { log(part) } else { part.into() };
        let linked = format!("{blob}/{part}");
        // The bytes of the part itself are the best bait.
        let bytes = std::fs::read(&linked).unwrap();
        std::fs::remove_file(&linked).unwrap();
        std::fs::write(path("roots"), &bytes).unwrap();
        std::fs::set_permissions(path("roots"), Permissions::from_mode(0o600)).unwrap();
        std::fs::hard_link(path("roots"), &linked).unwrap();
        for command in [&["fsck", "--repair"][..], &["index"], &["recover"]] {
            let _ = aggio(&[command, &[&blob]].concat());
            assert!(std::fs::read(path("roots")).unwrap() == bytes, "{part}: {command:?}");
            assert_eq!(rights(&path("roots")), (0, 0o600), "{part}: {command:?}");
        }
        let container = agg_core::blob::Container::open(blob.as_ref());
        if let Ok(container) = container {
            let _ = container.set_mode(0o666);
            let _ = container.set_owner(Some(OTHER), None);
            let _ = container.writer().map(|writer| writer.write_at(b"x", 5));
        }
        assert!(std::fs::read(path("roots")).unwrap() == bytes, "{part}");
        assert_eq!(rights(&path("roots")), (0, 0o600), "{part}");
    }
}
