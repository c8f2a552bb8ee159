//! The short way of plain calls: the calls it accepts, and that it matches the long way.

use super::*;
use aggio_base::report::Totals;
use aggio_store::driver::fault::arrange;
use aggio_types::datatype::Order;
use proptest::prelude::*;

/// A call on up to 64 bytes of memory.
#[derive(Clone, Debug)]
struct Wish {
    direction: Direction,
    position: Position,
    collective: bool,
    len: usize,
    /// Every second byte of the memory only.
    gaps: bool,
}

/// How the file is opened and seen.
#[derive(Clone, Debug)]
struct Setting {
    amode: Amode,
    view: usize,
    atomic: bool,
    sieving: &'static str,
    /// The faults below the engine.
    faults: &'static str,
}

const FAULTS: [&str; 5] = [
    "",
    "op=any,every=2,errno=EINTR;op=write,every=3,short=5;op=read,every=3,short=7",
    "op=write,nth=2,errno=ENOSPC",
    "op=write,after=30,errno=EDQUOT",
    "op=read,every=2,errno=EIO",
];

fn views(number: usize) -> View {
    let bytes = |size| Datatype::contiguous(size, &Datatype::basic(Basic::unsigned(1)));
    let view = |from, etype, filetype, representation| {
        View::new(from, etype, filetype, representation, false).expect("a legal view")
    };
    let (one, four) = (Datatype::bytes(1), bytes(4).expect("four bytes"));
    let part = Datatype::subarray(&[8], &[4], &[2], Order::C, &one).expect("a part");
    match number {
        0 => View::bytes(),
        1 => view(5, four.clone(), four, Representation::Internal),
        2 => every(1, 2, 6, 3).expect("a legal view"),
        3 => view(7, one.clone(), part, Representation::Native),
        4 => view(1, one, bytes(0).expect("no byte"), Representation::Native),
        5 => view(1, four.clone(), four, Representation::External32),
        _ => view(0, one.clone(), one, Representation::User("mine".into())),
    }
}

/// The observable results of a sequence of calls.
#[derive(Debug, PartialEq)]
struct Seen {
    /// Bytes moved, error and memory of each call.
    calls: Vec<(u64, Option<String>, Vec<u8>)>,
    position: Option<i64>,
    totals: Totals,
    file: Vec<u8>,
}

/// Makes the calls on a new file, by the short way if `short` is set and possible; also returns how
/// many took it.
fn seen(setting: &Setting, wishes: &[Wish], short: bool) -> (Seen, usize) {
    let scratch = Scratch::holding(&(0..200).collect::<Vec<u8>>());
    let _plan = arrange(&scratch.name(), setting.faults).expect("a plan");
    let name = format!("testfs:{}", scratch.name());
    let (setting, wishes) = (setting.clone(), wishes.to_vec());
    let mut all = ranks(1, move |transport| {
        let rank = opened(transport, &name, &setting);
        let mut shortened = 0;
        let mut carry_out = |wish: &Wish| {
            let mut buffer = vec![0xA0 + wish.len as u8; 128];
            let mut call = call(wish, &mut buffer);
            let at_once = if short { rank.file.fast_path(&mut call) } else { None };
            shortened += usize::from(at_once.is_some());
            let outcome = at_once.unwrap_or_else(|| rank.wait(rank.file.start(call)));
            // Every run has a file of its own.
            let error = outcome.result.err().map(|error| error.to_string().replace(&name, "file"));
            (outcome.bytes, error, buffer)
        };
        let calls = wishes.iter().map(&mut carry_out).collect();
        let (position, totals) = (rank.file.position().ok(), rank.file.counters().totals());
        rank.wait(rank.file.clone().close()).expect("the file closes");
        (Seen { calls, position, totals, file: Vec::new() }, shortened)
    });
    let (seen, shortened) = all.remove(0);
    (Seen { file: scratch.bytes(), ..seen }, shortened)
}

fn opened(transport: Arc<ThreadTransport>, name: &str, setting: &Setting) -> Rank {
    let hints = hints(&[("romio_ds_write", setting.sieving)]);
    let request = OpenRequest::new(name, setting.amode, hints);
    let file = wait(&*transport, engine().open(transport.clone(), request));
    let rank = Rank { number: 0, file: file.expect("the file opens") };
    let sequential = setting.amode.has(Amode::SEQUENTIAL);
    let place = if sequential { Displacement::Current } else { Displacement::OfView };
    rank.set_view_at(Ok(views(setting.view)), place).expect("a view can be set");
    rank.wait(rank.file.set_atomicity(setting.atomic)).expect("atomicity can be set");
    rank
}

fn call(wish: &Wish, buffer: &mut [u8]) -> Call {
    let step = if wish.gaps { 2 } else { 1 };
    let datatype = Datatype::bytes(1).resized(0, step).expect("a byte and a gap");
    // SAFETY: the buffer has two bytes for each of at most 64 elements, and outlives the call.
    let memory = unsafe { Memory::new(buffer.as_mut_ptr(), datatype, wish.len as u64) };
    let Wish { direction, position, collective, .. } = *wish;
    Call { operation: "MPI_File_test", direction, position, collective, memory: Ok(memory) }
}

fn settings() -> impl Strategy<Value = Setting> {
    let amodes = [Amode::RDWR, Amode::RDONLY, Amode::WRONLY, Amode::WRONLY.with(Amode::SEQUENTIAL)];
    let sieving = prop::sample::select(vec!["automatic", "enable", "disable"]);
    let faults = prop::sample::select(FAULTS.to_vec());
    (prop::sample::select(amodes.to_vec()), 0..7usize, any::<bool>(), sieving, faults).prop_map(
        |(amode, view, atomic, sieving, faults)| Setting { amode, view, atomic, sieving, faults },
    )
}

fn wishes() -> impl Strategy<Value = Vec<Wish>> {
    let position = prop_oneof![
        3 => (-1i64..220).prop_map(Position::Explicit),
        1 => Just(Position::Explicit(i64::MAX)),
        3 => Just(Position::Individual),
        1 => Just(Position::Shared),
        1 => Just(Position::Ordered),
    ];
    let direction = prop::sample::select(vec![Direction::Read, Direction::Write]);
    let wish = (direction, position, any::<bool>(), 0..17usize, any::<bool>()).prop_map(
        |(direction, position, collective, len, gaps)| Wish {
            direction,
            position,
            collective,
            len: len * 4 - usize::from(len == 9),
            gaps,
        },
    );
    prop::collection::vec(wish, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(300)
    })]

    #[test]
    fn the_short_way_does_what_the_long_way_does(setting in settings(), wishes in wishes()) {
        let (short, long) = (seen(&setting, &wishes, true).0, seen(&setting, &wishes, false).0);
        prop_assert_eq!(short, long);
    }
}

#[test]
fn plain_calls_take_the_short_way_and_others_do_not() {
    let plain =
        Setting { amode: Amode::RDWR, view: 1, atomic: true, sieving: "automatic", faults: "" };
    let write = Wish {
        direction: Direction::Write,
        position: Position::Individual,
        collective: false,
        len: 8,
        gaps: false,
    };
    let read =
        Wish { direction: Direction::Read, position: Position::Explicit(2), ..write.clone() };
    let shortened =
        |setting: &Setting, wish: &Wish| seen(setting, std::slice::from_ref(wish), true).1 == 1;
    for wish in [&write, &read] {
        assert!(shortened(&plain, wish), "{wish:?}");
        assert!(shortened(&plain, &Wish { collective: true, ..wish.clone() }), "alone");
        assert!(!shortened(&plain, &Wish { gaps: true, ..wish.clone() }), "memory with gaps");
        assert!(!shortened(&plain, &Wish { len: 0, ..wish.clone() }), "no data");
        assert!(!shortened(&plain, &Wish { len: 7, ..wish.clone() }), "a part of an etype");
        for view in 2..7 {
            assert!(!shortened(&Setting { view, ..plain.clone() }, wish), "view {view}");
        }
    }
    let sieving = Setting { sieving: "enable", ..plain };
    assert!(!shortened(&sieving, &write) && shortened(&sieving, &read), "writes under a lock");
}

#[test]
fn several_ranks_take_the_short_way_unless_a_call_is_collective_or_atomic() {
    let scratch = Scratch::holding(b"0123456789");
    on_file(2, scratch.name(), CREATE, |rank| {
        let wish = |collective| Wish {
            direction: Direction::Write,
            position: Position::Explicit(rank.number as i64),
            collective,
            len: 1,
            gaps: false,
        };
        let at_once = |wish| {
            let mut buffer = [b'a' + rank.number as u8; 128];
            rank.file.fast_path(&mut call(&wish, &mut buffer)).map(moved)
        };
        assert_eq!((at_once(wish(false)), at_once(wish(true))), (Some(1), None));
        rank.wait(rank.file.set_atomicity(true)).expect("atomicity can be set");
        assert_eq!(at_once(wish(false)), None);
    });
    assert_eq!(scratch.bytes(), b"ab23456789");
}
