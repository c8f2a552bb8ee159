//! Answers to opens of programs.

use super::Agent;
use super::deferred::After;
use super::waits::Waiting;
use crate::hosted::ALL;
use crate::protocol::Reply;
use crate::registry::{Answer, Opening, Registry};
use std::os::fd::AsRawFd;

impl Agent {
    /// Answers an open, or ends its wait.
    pub(super) fn answer(&mut self, waiting: &Waiting, answer: Answer) {
        let reply = match answer {
            Answer::Opened(opening) => return self.hand_over(waiting, opening),
            Answer::Wait => Reply::Failed(libc::EAGAIN, String::new()),
            Answer::OnDisk => Reply::OnDisk(told(&answer, &waiting.path, &self.own.registry)),
            Answer::Fail(number) => {
                Reply::Failed(number, told(&answer, &waiting.path, &self.own.registry))
            }
        };
        self.reply(waiting.link, &reply, None);
        self.settle();
    }

    /// Makes the descriptor of an open and sends it.
    fn hand_over(&mut self, waiting: &Waiting, opening: Opening) {
        if waiting.access.write {
            self.waits.promise(opening.area, opening.handle);
        }
        let failed = self.carry_out(waiting.mode);
        if failed.is_none() && self.background.lets_wait(waiting, opening) {
            self.links.let_wait(waiting.link);
            return self.settle();
        }
        self.hand_over_if(failed, waiting, opening);
    }

    /// The same, unless its memory could not be made.
    pub(super) fn hand_over_if(
        &mut self,
        failed: Option<i32>,
        waiting: &Waiting,
        opening: Opening,
    ) {
        if failed.is_none() && self.holds(waiting, opening) {
            return self.settle();
        }
        let guests = self.peers.as_ref().map(|peers| &peers.guests);
        let is_guest = guests.is_some_and(|guests| guests.request(waiting.link).is_some());
        let reads_all = !waiting.parts && !is_guest;
        if failed.is_none() && reads_all {
            let after = After::Open(waiting.clone(), opening);
            self.links.let_wait(waiting.link);
            if self.pulls_first(opening.area, &[ALL], after).is_ok() {
                return self.settle();
            }
        }
        let access = waiting.access;
        if access.write {
            self.background.note_written(opening.area);
        }
        self.waits.end_promise(opening.area, opening.handle);
        let made = match failed {
            Some(number) => Err(std::io::Error::from_raw_os_error(number)),
            None => {
                self.own.memory.areas.open(opening.area, access.read, access.write, access.append)
            }
        };
        match made {
            Ok(fd) => {
                let reply = Reply::Opened(opening.handle, opening.generation);
                if !self.reply(waiting.link, &reply, Some(fd.as_raw_fd())) {
                    self.own.registry.withdraw(waiting.process, opening.handle);
                }
            }
            Err(error) => {
                // Another writer may have died while the memory was filled.
                let loss = self.own.registry.opens.loss(opening.handle);
                let loss = loss.map(|(number, text)| (number, text.to_owned()));
                self.own.registry.withdraw(waiting.process, opening.handle);
                let number = error.raw_os_error().unwrap_or(libc::EIO);
                let failed = (number, error.to_string());
                let (number, text) = loss.unwrap_or(failed);
                self.reply(waiting.link, &Reply::Failed(number, text), None);
            }
        }
        self.settle();
    }
}

/// The text of an error.
fn told(answer: &Answer, path: &[u8], registry: &Registry) -> String {
    let path = String::from_utf8_lossy(path);
    if let Some(dead) = registry.files.names.dead_writer(path.as_bytes(), answer) {
        let (number, writer) = (dead.number, &dead.writer);
        return format!("{path}: {writer} died before generation {number} was complete");
    }
    if let Answer::Fail(number) = answer
        && let Some((directory, error)) =
            registry.files.room.full_directories().find(|(_, error)| error == number)
    {
        let error = std::io::Error::from_raw_os_error(error);
        return format!(
            "{path}: there is no memory for another generation, {directory} takes no more \
             ({error}), and no other program is there that would read those that are kept"
        );
    }
    match answer {
        Answer::Fail(libc::ESTALE) => {
            format!("{path}: the generation that is meant was not kept")
        }
        _ => String::new(),
    }
}
