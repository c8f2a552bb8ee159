//! Answers that wait until they are due, on one thread, however many they are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

type Answer = Box<dyn FnOnce() + Send>;

/// An answer and when it goes out; the number keeps equals in order.
struct Waiting {
    due: Instant,
    number: u64,
    answer: Answer,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

/// The way to the thread that waits.
#[derive(Clone)]
pub(crate) struct Delay(Sender<(Instant, Answer)>);

impl Delay {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = channel();
        std::thread::spawn(move || work(&receiver));
        Delay(sender)
    }

    /// Runs `answer` at `due`, or at once if nobody is left to wait.
    pub(crate) fn at(&self, due: Instant, answer: impl FnOnce() + Send + 'static) {
        if let Err(back) = self.0.send((due, Box::new(answer))) {
            (back.0.1)();
        }
    }
}

fn work(incoming: &Receiver<(Instant, Answer)>) {
    let (mut waiting, mut number) = (BinaryHeap::<Reverse<Waiting>>::new(), 0);
    let mut is_open = true;
    while is_open || !waiting.is_empty() {
        let now = Instant::now();
        while let Some(Reverse(one)) = waiting.pop() {
            if one.due > now {
                waiting.push(Reverse(one));
                break;
            }
            (one.answer)();
        }
        let next = waiting.peek().map(|Reverse(one)| one.due);
        match receive(incoming, next, is_open) {
            Ok((due, answer)) => {
                number += 1;
                waiting.push(Reverse(Waiting { due, number, answer }));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => is_open = false,
        }
    }
}

/// Waits for something new, or until `next`.
fn receive(
    incoming: &Receiver<(Instant, Answer)>,
    next: Option<Instant>,
    is_open: bool,
) -> Result<(Instant, Answer), RecvTimeoutError> {
    match next {
        None => incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(due) if is_open => {
            incoming.recv_timeout(due.saturating_duration_since(Instant::now()))
        }
        Some(due) => {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            Err(RecvTimeoutError::Timeout)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn answers_go_out_in_the_order_in_which_they_are_due() {
        let (delay, start) = (Delay::new(), Instant::now());
        let (sender, receiver) = channel();
        for (number, after) in [(3, 40), (1, 10), (2, 20), (0, 0)] {
            let sender = sender.clone();
            delay.at(start + Duration::from_millis(after), move || {
                let _ = sender.send((number, Instant::now()));
            });
        }
        drop((delay, sender));
        let answers: Vec<_> = receiver.iter().collect();
        assert_eq!(answers.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(answers[3].1 >= start + Duration::from_millis(40));
    }
}
