//! The contract of links: one suite of tests for all wires.
//!
//! Each case is a function that panics where the link does something else. Both ends run in one
//! thread, which moves them in turn.

mod deaths;
mod ends;
mod flow;
mod hostile;

use crate::wire::Wire;
use std::io;
use std::time::Instant;

/// Makes a wire that listens.
pub type Make<W> = fn() -> io::Result<W>;

/// A case: its promise, and the function that checks it.
pub type Case<W> = (&'static str, fn(Make<W>));

/// All cases.
pub fn cases<W: Wire + 'static>() -> Vec<Case<W>> {
    vec![
        ("frames arrive in order, in both directions", flow::order::<W>),
        ("bodies go from file to file, and change no byte beside them", flow::bodies::<W>),
        ("twenty thousand short frames arrive, each once", flow::many::<W>),
        ("a slow reader stops the sender, and loses nothing", flow::slow_reader::<W>),
        ("a frame that is too long is not sent", flow::too_long::<W>),
        ("what is sent before the other side is known waits until then", flow::early::<W>),
        ("a peer that dies is told once, others go on", deaths::dies::<W>),
        ("a peer that is silent for too long is dead", deaths::silent::<W>),
        ("a peer that has nothing to say lives", deaths::idle::<W>),
        ("who cannot be reached is told", deaths::nobody::<W>),
        ("a frame that is cut is no message", deaths::cut::<W>),
        ("who has another token is refused on both sides", hostile::other_token::<W>),
        ("a caller of another version is refused by name", hostile::old_caller::<W>),
        ("a frame of another version ends the connection", hostile::old_frame::<W>),
        ("a length beyond the bounds ends the connection", hostile::oversized::<W>),
        ("strangers that say nothing keep nobody out", hostile::strangers::<W>),
        ("changed bytes end that connection and no other", hostile::mutants::<W>),
    ]
}

/// Runs all cases.
///
/// # Panics
/// If a case fails; its promise was printed before.
pub fn run<W: Wire + 'static>(make: Make<W>) {
    for (promise, case) in cases::<W>() {
        let start = Instant::now();
        print!("{promise}: ");
        case(make);
        println!("{:?}", start.elapsed());
    }
}
