//! Many small pieces at once: the view's bytes are copied to and from the file's own pages, where
//! the driver has them as memory ([`Driver::in_place`]).

use super::decision;
use super::list::VECTOR_BYTES;
use crate::driver::{Driver, InPlace};
use aggio_base::Extent;
use aggio_base::log::Level;
use aggio_base::report::Counters;
use aggio_types::copy::{Data, Part};

/// Bytes of file mapped at a time: so many that preparing them costs little, so few that they stay
/// in the processor's cache.
const WINDOW: u64 = 1 << 20;

/// Copies the data of a part to or from the memory of its window, which begins at the address.
type Copy = unsafe fn(Data<'_>, Part, *mut u8);

/// Pieces of a view that are worth it.
struct Pieces<'a> {
    data: Data<'a>,
    /// The view's data bytes behind the last one.
    end: u64,
    span: Extent,
}

impl<'a> Pieces<'a> {
    /// `None` if the view's pieces are too few, too long, or too far apart for the cost of a
    /// request, given as `costs` in bytes.
    fn of(data: Data<'a>, costs: u64) -> Option<Self> {
        let all = Self::all(data)?;
        let (view, len) = (data.view, data.memory.len());
        let pieces = view.pieces(data.position, len);
        let gap = all.span.len.saturating_sub(len) / pieces.saturating_sub(1).max(1);
        let joins = decision::joins(gap, len / pieces.max(1), costs);
        (joins && pieces >= decision::FEWEST_PIECES as u64).then_some(all)
    }

    /// The pieces if the data is one long run in the file and short runs in memory, and the file's
    /// pages are at hand: reads scatter it from the pages without another copy. Otherwise `None`.
    fn of_scattered<D: Driver + ?Sized>(driver: &D, data: Data<'a>) -> Option<Self> {
        let all = Self::all(data)?;
        let dense = all.span.len == data.memory.len() && all.span.len >= WINDOW;
        let (_, run) = data.memory.cursor(0).run()?;
        (dense && run < VECTOR_BYTES && decision::has_pages_at_hand(driver)).then_some(all)
    }

    /// `None` if there is no data or its order is not that of the file.
    fn all(data: Data<'a>) -> Option<Self> {
        let (view, len) = (data.view, data.memory.len());
        let end = data.position.checked_add(len)?;
        if len == 0 || !view.is_aggregatable() {
            return None;
        }
        let span = view.span(data.position, len);
        i64::try_from(span.end()).is_ok().then_some(Self { data, end, span })
    }

    /// The part from data byte `position` of the view on; `None` if it lies thinly there, compared
    /// with the whole.
    fn part(&self, position: u64) -> Option<Part> {
        let view = self.data.view;
        let first = view.offset_at(position);
        let border = (first / WINDOW + 1) * WINDOW;
        let upto = view.data_before(border).min(self.end);
        let len = upto.checked_sub(position).filter(|len| *len > 0)?;
        let window = Extent::between(first, view.offset_at(upto - 1) + 1);
        let all = self.end - self.data.position;
        let thin = u128::from(len) * u128::from(self.span.len) * 2
            < u128::from(all) * u128::from(window.len);
        (!thin).then_some(Part { window, position, len: len as usize })
    }
}

/// Writes from the first data byte on; returns how many bytes are stored. The rest is for requests.
pub(super) fn write<D: Driver + ?Sized>(driver: &D, data: Data<'_>, counters: &Counters) -> u64 {
    let costs = decision::piece_cost(driver);
    let put: Copy = |data, part, start| {
        // SAFETY: the caller has all of the part's window at `start`, and the view's bytes are for
        // this call alone to store.
        unsafe { aggio_types::copy::put(data, part, start) }
    };
    let Some(pieces) = Pieces::of(data, costs) else { return 0 };
    let bytes = run(driver, &pieces, true, put, counters);
    Counters::add(&counters.bytes_written_out, bytes);
    bytes
}

/// Reads from the first data byte on; returns the number of bytes moved. The caller reads the rest
/// by requests, which also handle the end of the file.
pub(super) fn read<D: Driver + ?Sized>(driver: &D, data: Data<'_>, counters: &Counters) -> u64 {
    let pieces = Pieces::of(data, decision::loads_cost(driver));
    let pieces = pieces.or_else(|| Pieces::of_scattered(driver, data));
    let Some(pieces) = pieces else { return 0 };
    let get: Copy = |data, part, start| {
        // SAFETY: the caller has all of the part's window at `start`.
        unsafe { aggio_types::copy::get(data, part, start) }
    };
    let bytes = run(driver, &pieces, false, get, counters);
    Counters::add(&counters.bytes_read_out, bytes);
    bytes
}

fn run<D: Driver + ?Sized>(
    driver: &D,
    pieces: &Pieces<'_>,
    stores: bool,
    copy: Copy,
    counters: &Counters,
) -> u64 {
    let data = pieces.data;
    let requests = if stores { &counters.writes_out } else { &counters.reads_out };
    let start = counters.now();
    let mut position = data.position;
    while position < pieces.end {
        let Some(part) = pieces.part(position) else { break };
        let windows = [part.window];
        let access = if stores { InPlace::Store(&windows) } else { InPlace::Load };
        let moved = driver.in_place(part.window, access, &mut |start| {
            // SAFETY: the driver has the window as memory from `start` on.
            unsafe { copy(data, part, start) };
        });
        if !moved {
            break;
        }
        Counters::add(requests, 1);
        let (what, at) = (if stores { "store" } else { "load" }, part.window.offset);
        aggio_base::log!(Level::Trace, "{what}: {} bytes in mapped pages at {at}", part.len);
        position += part.len as u64;
    }
    if counters.is_timed() {
        Counters::add_since(&counters.nanoseconds_out, start);
    }
    position - data.position
}

#[cfg(test)]
mod tests {
    use crate::driver::scratch::Scratch;
    use crate::driver::{Driver, OpenHow, open};
    use crate::independent::{Strategy, read_strided, write_strided};
    use aggio_base::report::Counters;
    use aggio_types::datatype::Datatype;
    use aggio_types::memory::Memory;
    use aggio_types::view::{Representation, View};
    use std::sync::atomic::Ordering::Relaxed;

    const PIECES: usize = 40_000;

    /// 3 bytes of 50, from byte 7 on.
    fn view() -> View {
        let piece = Datatype::bytes(3).resized(0, 50).unwrap();
        View::new(7, Datatype::bytes(1), piece, Representation::Native, true).unwrap()
    }

    fn memory(bytes: &mut [u8]) -> Memory {
        // SAFETY: the bytes outlive the calls of these tests.
        unsafe { Memory::new(bytes.as_mut_ptr(), Datatype::bytes(1), bytes.len() as u64) }
    }

    fn opened(scratch: &Scratch) -> Box<dyn Driver> {
        let how =
            OpenHow { path: scratch.file("f"), read: true, write: true, ..OpenHow::default() };
        open(&how).unwrap()
    }

    #[test]
    fn forty_thousand_pieces_take_a_few_windows_and_nothing_between_them_changes() {
        let scratch = Scratch::new();
        std::fs::write(scratch.file("f"), vec![9; 1_500_000]).unwrap();
        let driver = opened(&scratch);
        if !["tmpfs", "ext4", "xfs"].contains(&&*driver.facts().file_system) {
            return;
        }
        let mut data: Vec<u8> = (0..3 * PIECES).map(|n| n as u8).collect();
        let mut expected = vec![9; 1_500_000];
        expected.resize(7 + 50 * (PIECES - 1) + 3, 0);
        for (piece, data) in expected[7..].chunks_mut(50).zip(data.chunks(3)) {
            piece[..3].copy_from_slice(data);
        }
        let (counters, strategy) = (Counters::default(), Strategy::default());
        let outcome = write_strided(&*driver, &view(), 0, &memory(&mut data), &strategy, &counters);
        assert_eq!((outcome.bytes, outcome.result), (3 * PIECES as u64, Ok(())));
        assert!(std::fs::read(scratch.file("f")).unwrap() == expected);
        assert!(counters.writes_out.load(Relaxed) <= 3, "{counters:?}");

        let mut back = vec![0; 3 * PIECES];
        let outcome = read_strided(&*driver, &view(), 0, &memory(&mut back), &strategy, &counters);
        assert_eq!((outcome.bytes, outcome.result), (3 * PIECES as u64, Ok(())));
        assert!(back == data);
        assert_eq!(counters.bytes_read_out.load(Relaxed), 3 * PIECES as u64, "{counters:?}");
    }

    #[test]
    fn what_lies_behind_the_end_of_the_file_is_not_read() {
        let scratch = Scratch::new();
        let end = 7 + 50 * 30_000;
        std::fs::write(scratch.file("f"), vec![9; end + 1]).unwrap();
        let driver = opened(&scratch);
        let mut back = vec![0; 3 * PIECES];
        let (counters, strategy) = (Counters::default(), Strategy::default());
        let outcome = read_strided(&*driver, &view(), 0, &memory(&mut back), &strategy, &counters);
        assert_eq!((outcome.bytes, outcome.result), (3 * 30_000 + 1, Ok(())));
        assert!(back[..90_001].iter().all(|byte| *byte == 9));
        assert!(back[90_001..].iter().all(|byte| *byte == 0));
    }
}
