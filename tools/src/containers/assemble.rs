//! A set of netCDF files becomes one: threads assemble windows of it in a file that gets its name
//! when it is complete.

use super::{at, not_made, stream, threads};
use agg_core::output::{Output, Unfinished, require_vacant};
use agg_core::workers::together;
use aggio_formats::Logical;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a set is merged.
#[derive(Clone, Copy)]
pub(super) struct Assembly<'a> {
    pub(super) threads: usize,
    /// Whether the file is compared with the set at the end.
    pub(super) verify: bool,
    /// Whether a file that has the name already is replaced.
    pub(super) replace: bool,
    /// The permissions of the file.
    pub(super) mode: u32,
    pub(super) progress: &'a (dyn Fn(u64, u64) + Sync),
    /// Where the hidden name is noted that the file may have meanwhile.
    pub(super) unfinished: &'a Unfinished,
}

/// An action on a window, with memory for its bytes.
type Act<'a> = dyn Fn(&Range<u64>, &mut Vec<u8>) -> Result<(), String> + Sync + 'a;

impl Assembly<'_> {
    pub(super) fn run(&self, from: &Logical, to: &Path) -> Result<(), String> {
        let refused = |why: agg_core::Error| not_made(to, &why);
        require_vacant(to, self.replace).map_err(refused)?;
        let made = Output::create(to, self.mode, self.unfinished).map_err(refused)?;
        let told = |why: std::io::Error| at(to, why);
        made.file().set_len(from.size()).map_err(told)?;
        let copy = |range: &Range<u64>, bytes: &mut Vec<u8>| {
            stream::read(from, range, bytes)?;
            made.file().write_all_at(bytes, range.start).map_err(told)
        };
        let whole = from.size() * if self.verify { 2 } else { 1 };
        self.each_window(from, 0..whole, &copy)?;
        made.file().sync_all().map_err(told)?;
        if self.verify {
            let compare = |range: &Range<u64>, bytes: &mut Vec<u8>| {
                stream::read(from, range, bytes)?;
                let mut copy = vec![0; bytes.len()];
                made.file().read_exact_at(&mut copy, range.start).map_err(told)?;
                let wrong = || at(to, format!("differs from the set in {range:?}"));
                if copy == *bytes { Ok(()) } else { Err(wrong()) }
            };
            self.each_window(from, from.size()..whole, &compare)?;
        }
        made.publish(self.replace).map_err(refused)
    }

    /// Calls `act` for each window, on several threads. The progress begins at `done.start` and
    /// ends at `done.end`.
    fn each_window(&self, of: &Logical, done: Range<u64>, act: &Act<'_>) -> Result<(), String> {
        let (windows, failure) = (Mutex::new(of.windows()), Mutex::new(None));
        let count = AtomicU64::new(done.start);
        let next = || windows.lock().ok().and_then(|mut windows| windows.next());
        let work = || {
            let mut bytes = Vec::new();
            while let Some(range) = next() {
                if let Err(why) = act(&range, &mut bytes) {
                    if let Ok(mut failure) = failure.lock() {
                        failure.get_or_insert(why);
                    }
                    // Others stop, too.
                    next_to_end(&windows);
                    return;
                }
                let len = range.end - range.start;
                let before = count.fetch_add(len, Ordering::Relaxed);
                (self.progress)(before + len, done.end);
            }
        };
        together(threads(self.threads), "aggio-assemble", None, work);
        match failure.into_inner() {
            Ok(Some(why)) => Err(why),
            _ => Ok(()),
        }
    }
}

fn next_to_end(windows: &Mutex<aggio_formats::Windows<'_>>) {
    if let Ok(mut windows) = windows.lock() {
        windows.by_ref().for_each(drop);
    }
}
