//! For tests: makes threads whose operations find no worker.

use std::cell::Cell;

thread_local! {
    /// Operations that this thread begins find no worker, as where no thread can be made.
    pub static THREADLESS: Cell<bool> = const { Cell::new(false) };
}
