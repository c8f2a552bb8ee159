//! Answers to opens of programs.

use super::deferred::After;
use super::owner::Owner;
use super::waits::Waiting;
use crate::hosted::ALL;
use crate::peers::{Action, Opened};
use crate::protocol::Reply;
use crate::registry::{Answer, Opening, Registry};
use std::io;

impl Owner {
    /// Answers an open, or ends its wait.
    pub(super) fn answer(&mut self, waiting: &Waiting, answer: Answer) {
        let text = || told(&answer, &waiting.path, &self.life.own.registry);
        let reply = match answer {
            Answer::Opened(opening) => return self.hand_over(waiting, opening),
            Answer::Wait => Reply::Failed(libc::EAGAIN, String::new()),
            Answer::OnDisk => Reply::OnDisk(text()),
            Answer::Fail(number) => Reply::Failed(number, text()),
        };
        self.reply(waiting.link, reply);
    }

    /// Makes the descriptor of an open.
    fn hand_over(&mut self, waiting: &Waiting, opening: Opening) {
        if waiting.access.write {
            self.life.promise(opening.area, opening.handle);
        }
        let failed = self.life.carry_out(waiting.mode);
        match failed.is_none() && self.life.background.lets_wait(waiting, opening) {
            true => self.let_wait(waiting.link),
            false => self.hand_over_if(failed, waiting, opening),
        }
    }

    /// The same, unless its memory could not be made.
    pub(super) fn hand_over_if(
        &mut self,
        failed: Option<i32>,
        waiting: &Waiting,
        opening: Opening,
    ) {
        let area = opening.area;
        if failed.is_none() {
            self.life.share_with_all(area);
            let after = After::Open(waiting.clone(), opening);
            // Other nodes acknowledge that they share it, or send bytes that programs read here.
            let Err(after) = self.life.hold(area, waiting.link, after) else { return };
            let is_guest = self.life.own.registry.processes.node(waiting.process) != 0;
            if !waiting.parts && !is_guest && self.life.pulls_first(area, &[ALL], after).is_ok() {
                return self.let_wait(waiting.link);
            }
        }
        let access = waiting.access;
        if access.write {
            self.life.background.note_written(area);
        }
        self.life.end_promise(area, opening.handle);
        let made = match failed {
            Some(number) => Err(io::Error::from_raw_os_error(number)),
            None => {
                let areas = &self.life.own.memory.areas;
                areas.open(area, access.read, access.write, access.append)
            }
        };
        match made {
            Ok(file) => {
                let Waiting { link, process, .. } = *waiting;
                let Opening { handle, generation, .. } = opening;
                let file = Some(file);
                let opened = Opened { link, process, handle, generation, file };
                self.life.actions.push(Action::Open(opened));
            }
            Err(error) => {
                // Another writer may have died while the memory was filled.
                let loss = self.life.own.registry.opens.loss(opening.handle);
                let loss = loss.map(|(number, text)| Reply::Failed(number, text.to_owned()));
                self.life.own.registry.withdraw(waiting.process, opening.handle);
                self.reply(waiting.link, loss.unwrap_or_else(|| Reply::from(&error)));
            }
        }
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
