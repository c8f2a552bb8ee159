//! Memory that no driver can own: the heap, and the end of the first thread's stack. Most small
//! buffers are there, so for them nobody looks for drivers.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the stack. The kernel keeps more than that free of other mappings, however small the
/// stack's limit is.
const STACK: usize = 1 << 20;

/// The fields of `/proc/self/stat` with the first address of the stack and of the heap, counted
/// from the one behind the name.
const STACK_FIELD: usize = 25;
const HEAP_FIELD: usize = 44;

/// The ranges of the process.
struct Ordinary {
    stack: Range<usize>,
    heap: usize,
    /// The C library's variable with the end of the heap.
    heap_end: Option<&'static AtomicUsize>,
}

static ORDINARY: OnceLock<Ordinary> = OnceLock::new();

/// Whether an address is in such memory; a negative answer means nothing.
#[inline]
pub(super) fn holds(address: usize) -> bool {
    let here = ORDINARY.get_or_init(Ordinary::read);
    let heap_end = here.heap_end.map_or(0, |end| end.load(Ordering::Relaxed));
    (here.heap..heap_end).contains(&address) || here.stack.contains(&address)
}

impl Ordinary {
    #[cold]
    fn read() -> Self {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let (stack, heap) = starts(&text).unwrap_or((0, usize::MAX));
        // SAFETY: the name is a C string. The variable is a pointer that lives as long as the
        // process, and is read as a number.
        let heap_end = unsafe {
            let end = libc::dlsym(libc::RTLD_DEFAULT, c"__curbrk".as_ptr());
            end.cast::<AtomicUsize>().as_ref()
        };
        Self { stack: stack.saturating_sub(STACK)..stack, heap, heap_end }
    }
}

/// The first addresses of stack and heap, if the kernel tells them.
fn starts(text: &str) -> Option<(usize, usize)> {
    // The name may contain anything.
    let (_, fields) = text.rsplit_once(')')?;
    let field = |number| fields.split_whitespace().nth(number)?.parse().ok();
    Some((field(STACK_FIELD)?, field(HEAP_FIELD)?)).filter(|(stack, heap)| *stack > 0 && *heap > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heap_and_the_stack_are_ordinary_and_mappings_are_not() {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let start = |name: &str| {
            let line = text.lines().find(|line| line.ends_with(name))?;
            usize::from_str_radix(line.split('-').next()?, 16).ok()
        };
        let last = |name: &str| {
            let line = text.lines().find(|line| line.ends_with(name))?;
            usize::from_str_radix(line.split(['-', ' ']).nth(1)?, 16).ok()
        };
        if let Some(heap) = start("[heap]") {
            assert!(holds(heap) && !holds(heap - 1));
        }
        let stack = last("[stack]").expect("a stack");
        let found = ORDINARY.get_or_init(Ordinary::read).stack.end;
        assert!(found <= stack && stack - found < 1 << 20, "{found:x} {stack:x}");
        assert!(!holds(stack - (2 << 20)) && !holds(starts as *const () as usize));
    }

    #[test]
    fn a_name_with_spaces_and_brackets_does_not_move_the_fields() {
        let fields: Vec<String> = (0..50).map(|number| format!("{}", 100 + number)).collect();
        let text = format!("77 (a) b (c)) {}", fields.join(" "));
        assert_eq!(starts(&text), Some((125, 144)));
        assert_eq!(starts("77 (cut) R 1 2"), None);
    }
}
