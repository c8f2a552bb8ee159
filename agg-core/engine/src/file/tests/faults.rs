//! Failing storage: the right class on every rank, right counts, no deadlock, and the file still
//! works.

use super::*;
use aggio_store::driver::fault::arrange;

const SIZE: usize = 4;
/// Bytes of each rank: several windows of the smallest buffer.
const LEN: usize = 4000;

/// How the ranks of a test access their file.
#[derive(Clone, Copy, Debug)]
enum Way {
    Independent,
    Strided,
    Collective,
    CollectiveStrided,
    Pending,
    Shared,
    Ordered,
}

const WAYS: [Way; 7] = [
    Way::Independent,
    Way::Strided,
    Way::Collective,
    Way::CollectiveStrided,
    Way::Pending,
    Way::Shared,
    Way::Ordered,
];

impl Way {
    fn is_collective(self) -> bool {
        !matches!(self, Way::Independent | Way::Strided | Way::Shared)
    }

    fn is_strided(self) -> bool {
        matches!(self, Way::Strided | Way::CollectiveStrided)
    }

    fn position(self, rank: &Rank) -> Position {
        match self {
            Way::Shared => Position::Shared,
            Way::Ordered => Position::Ordered,
            way if way.is_strided() => Position::Explicit(0),
            _ => Position::Explicit((rank.number * LEN) as i64),
        }
    }
}

/// Opens the file with a small buffer and two aggregators.
fn open_small(transport: &Arc<ThreadTransport>, name: &str, way: Way) -> Rank {
    let pairs = [
        ("cb_buffer_size", "1024"),
        ("cb_nodes", "2"),
        ("cb_config_list", "*:*"),
        ("romio_cb_write", "enable"),
        ("romio_cb_read", "enable"),
    ];
    let request = OpenRequest::new(name, CREATE, hints(&pairs));
    let file = wait(&**transport, engine().open(transport.clone(), request)).expect("it opens");
    let rank = Rank { number: transport.rank(), file };
    if way.is_strided() {
        let view = every(1, 10, 10 * SIZE as i64, 10 * rank.number as u64);
        rank.set_view(view).expect("a legal view");
    }
    rank
}

fn access(rank: &Rank, way: Way, direction: Direction, buffer: &mut [u8]) -> Outcome {
    let position = way.position(rank);
    rank.wait(rank.start(direction, position, way.is_collective(), buffer))
}

/// Makes `culprit`s fail according to `plan`; every rank must get `wanted`, or, if ranks work
/// independently, the ranks that met the fault.
fn write_with(plan: &str, way: Way, wanted: ErrorClass) {
    let scratch = Scratch::new();
    let _plan = arrange(&scratch.name(), plan).expect("a plan");
    let name = format!("testfs:{}", scratch.name());
    let results = ranks(SIZE, move |transport| {
        let rank = open_small(&transport, &name, way);
        let mut data = vec![rank.number as u8 + 1; LEN];
        let outcome = access(&rank, way, Direction::Write, &mut data);
        assert!(outcome.bytes <= LEN as u64);
        let class = outcome.result.as_ref().err().map(Error::class);
        let again = access(&rank, way, Direction::Write, &mut data);
        rank.barrier();
        let closed = rank.wait(rank.file.clone().close());
        (class, outcome.bytes, again.result.is_ok(), closed.is_ok())
    });
    let context = format!("{plan}, {way:?}: {results:?}");
    let classes: Vec<_> = results.iter().map(|result| result.0).collect();
    assert!(classes.contains(&Some(wanted)), "{context}");
    if way.is_collective() {
        assert_eq!(classes, [Some(wanted); SIZE], "{context}");
    }
    assert!(results.iter().all(|result| result.2 && result.3), "{context}");
    let bytes = scratch.bytes();
    assert!(bytes.iter().filter(|byte| **byte > 0).count() >= SIZE * LEN, "{context}");
}

#[test]
fn a_failed_write_has_its_class_on_every_rank_and_the_next_write_works() {
    for way in WAYS {
        for (errno, class) in [
            ("ENOSPC", ErrorClass::NoSpace),
            ("EDQUOT", ErrorClass::Quota),
            ("EIO", ErrorClass::Io),
            ("EACCES", ErrorClass::Access),
        ] {
            write_with(&format!("op=write,rank=0,nth=1,errno={errno}"), way, class);
        }
    }
}

#[test]
fn a_write_that_fails_in_a_middle_window_is_told_to_every_rank() {
    for way in [Way::Collective, Way::CollectiveStrided, Way::Pending, Way::Ordered] {
        for nth in [2, 4, 7] {
            for rank in [0, 1] {
                let plan = format!("op=write,rank={rank},nth={nth},errno=ENOSPC");
                write_with(&plan, way, ErrorClass::NoSpace);
            }
        }
    }
}

#[test]
fn a_failed_read_has_its_class_and_the_next_read_delivers() {
    for way in WAYS {
        let scratch = Scratch::holding(&[7; SIZE * LEN * 3]);
        let _plan = arrange(&scratch.name(), "op=read,rank=0,nth=1,errno=EIO").expect("a plan");
        let name = format!("testfs:{}", scratch.name());
        let results = ranks(SIZE, move |transport| {
            let rank = open_small(&transport, &name, way);
            let mut data = vec![0; LEN];
            let class = access(&rank, way, Direction::Read, &mut data).result.err();
            let bytes = moved(access(&rank, way, Direction::Read, &mut data));
            rank.barrier();
            rank.wait(rank.file.clone().close()).expect("it closes");
            (class.map(|error| error.class()), bytes, data == [7; LEN])
        });
        assert!(results.iter().any(|result| result.0 == Some(ErrorClass::Io)), "{way:?}");
        if way.is_collective() {
            assert!(results.iter().all(|result| result.0 == Some(ErrorClass::Io)), "{way:?}");
        }
        assert!(results.iter().all(|result| result.1 == LEN as u64 && result.2), "{results:?}");
    }
}

#[test]
fn short_and_interrupted_transfers_are_no_failures() {
    for way in WAYS {
        let scratch = Scratch::new();
        let plan = "op=any,every=2,errno=EINTR;op=write,every=3,short=100;op=read,every=3,short=99";
        let _plan = arrange(&scratch.name(), plan).expect("a plan");
        let name = format!("testfs:{}", scratch.name());
        ranks(SIZE, move |transport| {
            let rank = open_small(&transport, &name, way);
            let mut data = vec![rank.number as u8 + 1; LEN];
            assert_eq!(moved(access(&rank, way, Direction::Write, &mut data)), LEN as u64);
            rank.barrier();
            rank.wait(rank.file.seek_shared(0, super::super::Whence::Start)).expect("a seek");
            let mut back = vec![0; LEN];
            assert_eq!(moved(access(&rank, way, Direction::Read, &mut back)), LEN as u64);
            if !matches!(way, Way::Shared) {
                assert_eq!(back, data, "{way:?}");
            }
            rank.barrier();
            rank.wait(rank.file.clone().close()).expect("it closes");
        });
    }
}

#[test]
fn the_count_of_a_failed_write_is_what_the_file_holds() {
    for way in [Way::Independent, Way::Strided] {
        let scratch = Scratch::new();
        let _plan = arrange(&scratch.name(), "op=write,after=1000,errno=ENOSPC").expect("a plan");
        let name = format!("testfs:{}", scratch.name());
        let stored: u64 = ranks(SIZE, move |transport| {
            let rank = open_small(&transport, &name, way);
            let mut data = vec![rank.number as u8 + 1; LEN];
            let outcome = access(&rank, way, Direction::Write, &mut data);
            assert_eq!(class(outcome.result), ErrorClass::NoSpace);
            rank.wait(rank.file.clone().close()).expect("it closes");
            outcome.bytes
        })
        .into_iter()
        .sum();
        let held = scratch.bytes().iter().filter(|byte| **byte > 0).count();
        assert_eq!(stored, held as u64, "{way:?}");
    }
}
