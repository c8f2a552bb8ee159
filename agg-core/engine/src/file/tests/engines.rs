//! Several engines in one process.

use super::*;
use aggio_plan::format::testing::{FORMATS, head_of};
use aggio_store::driver::scratch::Scratch;

fn engine_with(rules: &str) -> Engine {
    let variable = |name: &str| (name == "AGGIO_BLOB").then(|| rules.to_owned());
    let names = ["AGGIO_BLOB".to_owned()];
    let settings = Settings::read(&variable, &names, &mut Diagnostics::default());
    Engine::new(Drivers::new(&settings.blobs, true))
}

/// Two ranks write a file of one engine; returns the name of the driver, and whether the format was
/// recognised.
fn written(engine: &Arc<Engine>, scratch: &Scratch, name: &str, bytes: &[u8]) -> (String, bool) {
    let (engine, path) = (engine.clone(), scratch.file(name));
    let (bytes, place) = (bytes.to_vec(), path.clone());
    let names = ranks(2, move |transport| {
        let request = OpenRequest::new(&path, CREATE, hints(&[]));
        let file = wait(&*transport, engine.open(transport.clone(), request)).expect("it opens");
        let rank = Rank { number: transport.rank(), file };
        let at = Position::Explicit((rank.number * bytes.len()) as i64);
        assert_eq!(moved(rank.write_all(at, &bytes)), bytes.len() as u64);
        // The ranks exchange their findings about the format here.
        rank.wait(rank.file.sync()).expect("it is synchronised");
        let name =
            (rank.file.driver().name().to_owned(), rank.file.storage.format().map().is_some());
        rank.wait(rank.file.clone().close()).expect("it closes");
        name
    });
    assert!(std::path::Path::new(&place).exists());
    names.into_iter().next().expect("two ranks")
}

#[test]
fn engines_of_one_process_have_rules_and_formats_of_their_own() {
    let scratch = Scratch::new();
    let containers = Arc::new(engine_with("*.nc"));
    let files = Arc::new(engine_with("*.other").with_formats(FORMATS));
    let head = head_of(64, 32);
    for round in 0..2 {
        let name = |kind: &str| format!("{kind}{round}.nc");
        let (driver, has_map) = written(&containers, &scratch, &name("c"), &head);
        assert_eq!((&*driver, has_map), ("blob", false));
        let (driver, has_map) = written(&files, &scratch, &name("f"), &head);
        assert_eq!((&*driver, has_map), ("posix", true));
    }
    // Each deletes the file that the other one has made.
    assert_eq!(files.delete(&scratch.file("c0.nc")), Ok(()));
    assert_eq!(containers.delete(&scratch.file("f0.nc")), Ok(()));
}

#[test]
fn an_engine_without_layouts_says_so() {
    let error = Engine::default().recaster().err().expect("none is known");
    assert_eq!((error.class(), error.errno()), (ErrorClass::UnsupportedOperation, libc::ENOTSUP));
}

#[test]
fn a_file_that_defers_in_one_engine_is_not_flushed_by_another() {
    let scratch = Scratch::new();
    let (path, first, second) = (scratch.file("x"), Arc::new(Engine::default()), Engine::default());
    let (second, other) = (Arc::new(second), path.clone());
    ranks(2, move |transport| {
        let open = |engine: &Arc<Engine>, transport: &Arc<ThreadTransport>| {
            let rank = open_in(engine, transport, &path, &[DEFER]);
            rank.barrier();
            rank
        };
        let rank = open(&first, &transport);
        let bytes: &[u8] = if rank.number == 0 { b"waits" } else { b"" };
        assert_eq!(moved(rank.write_all(Position::Explicit(0), bytes)), bytes.len() as u64);
        if rank.number == 0 {
            let alone = ThreadTransport::group(1).remove(0);
            let stranger = open(&second, &alone);
            assert_eq!(moved(stranger.read(Position::Explicit(0), 5).1), 0, "as another process");
            let sibling = open(&first, &alone);
            assert_eq!(sibling.read(Position::Explicit(0), 5).0, b"waits");
            for rank in [stranger, sibling] {
                rank.wait(rank.file.clone().close()).expect("it closes");
            }
        }
        rank.wait(rank.file.clone().close()).expect("it closes");
    });
    assert_eq!(std::fs::read(other).unwrap(), b"waits");
}

fn open_in(
    engine: &Arc<Engine>,
    transport: &Arc<ThreadTransport>,
    path: &str,
    pairs: &[(&str, &str)],
) -> Rank {
    let request = OpenRequest::new(path, CREATE, hints(pairs));
    let file = wait(&**transport, engine.open(transport.clone(), request)).expect("it opens");
    Rank { number: transport.rank(), file }
}

/// In an engine of its own no other file defers, so an open does not compare names.
#[test]
fn handles_of_a_file_know_each_other_though_its_name_has_changed() {
    for with_another in [false, true] {
        let scratch = Scratch::new();
        let (path, other) = (scratch.file("x"), scratch.file("y"));
        let (engine, pairs) = (Arc::new(Engine::default()), ThreadTransport::group(2));
        let open = move |transport: &Arc<ThreadTransport>, path: &str, pairs: &[(&str, &str)]| {
            open_in(&engine, transport, path, pairs)
        };
        ranks(2, move |transport| {
            // Rank 1 does not open the file before it needs it.
            let late = open(&transport, &path, &[("aggio_tune", "deferred_open=enable")]);
            late.barrier();
            if late.number == 0 {
                std::fs::rename(&path, &other).unwrap();
                if with_another {
                    std::fs::write(&path, "another").unwrap();
                }
            }
            late.barrier();
            let defers = open(&pairs[late.number], &other, &[DEFER]);
            let place = Position::Explicit(10 * late.number as i64);
            assert_eq!(moved(defers.write(place, &[7; 10])), 10);
            assert_eq!(late.read(place, 10).0, [7; 10], "rank {}", late.number);
            for rank in [defers, late] {
                rank.wait(rank.file.clone().close()).expect("it closes");
            }
        });
    }
}

#[test]
fn a_rank_that_needs_a_container_late_takes_no_other_one_of_that_name_for_it() {
    // Without memory of the node no rank offers the open container.
    let scratch = Scratch::new();
    let (path, moved_to) = (scratch.file("x.nc"), scratch.file("y.nc"));
    let names = [path.clone(), moved_to.clone()];
    let engine = Arc::new(engine_with("*.nc"));
    let first = engine.clone();
    let close = |rank: &Rank| rank.wait(rank.file.clone().close()).expect("it closes");
    ranks_on(ThreadTransport::group_without_memory(2), move |transport| {
        let rank = open_in(&first, &transport, &path, &[]);
        if rank.number == 0 {
            assert_eq!(moved(rank.write(Position::Explicit(0), b"first")), 5);
            std::fs::rename(&path, &moved_to).unwrap();
            let other = open_in(&first, &ThreadTransport::group(1)[0], &path, &[]);
            assert_eq!(moved(other.write(Position::Explicit(0), b"another")), 7);
            close(&other);
        }
        rank.barrier();
        if rank.number == 1 {
            let error = failed(rank.write(Position::Explicit(5), b"late"));
            assert_eq!(error.class(), ErrorClass::NoSuchFile, "{error}");
        }
        rank.barrier();
        close(&rank);
    });
    for (name, bytes) in names.iter().zip(["another", "first"]) {
        let rank = open_in(&engine, &ThreadTransport::group(1)[0], name, &[]);
        assert_eq!(rank.file.driver().name(), "blob");
        let (found, outcome) = rank.read(Position::Explicit(0), 20);
        assert_eq!(found[..moved(outcome) as usize], *bytes.as_bytes(), "{name}");
        close(&rank);
    }
}
