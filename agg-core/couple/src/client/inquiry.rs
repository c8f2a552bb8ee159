//! Questions that need no program, to an agent that is there.

use super::connection::{connect_to, greet_by};
use super::timeouts::{self, ANSWERS};
use crate::place::Place;
use crate::protocol::{Packet, Packets, Reply, Request};
use aggio_base::log;
use aggio_base::log::Level;
use std::io;
use std::os::fd::OwnedFd;

/// A connection for questions that an agent can answer at once.
#[derive(Debug)]
pub(super) struct Inquiry(Packets);

impl Inquiry {
    /// `None` if there is no agent.
    pub(super) fn to(dir: &str) -> io::Result<Option<Self>> {
        Ok(connect_to(&Place::open(dir)?)?.map(Self))
    }

    /// Names this process; false if the agent has just ended.
    ///
    /// # Errors
    /// `TimedOut` if the agent does not answer.
    pub(super) fn greet(&self) -> io::Result<bool> {
        greet_by(&self.0, &[], || self.hear())
    }

    fn hear(&self) -> io::Result<Option<Packet>> {
        timeouts::receive_within(&self.0, ANSWERS).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => {
                let (agent, seconds) = (timeouts::agent_of(&self.0), ANSWERS.as_secs());
                let text = format!("{agent} has not answered for {seconds} s");
                io::Error::new(io::ErrorKind::TimedOut, text)
            }
            _ => error,
        })
    }

    /// Says something, and does not wait for the answer.
    pub(super) fn say(&self, request: &Request) -> io::Result<()> {
        self.0.send(&request.encode(), None, false)
    }

    /// The answer, and the descriptor that comes with it; `None` if the agent ends.
    ///
    /// # Errors
    /// `TimedOut` if the agent does not answer.
    pub(super) fn ask_for_file(
        &self,
        request: &Request,
    ) -> io::Result<Option<(Reply, Option<OwnedFd>)>> {
        if !or_gone(self.0.send(&request.encode(), None, true).map(|()| true))? {
            return Ok(None);
        }
        while let Some((message, fd)) = or_gone(self.hear())? {
            match Reply::decode(&message)? {
                Reply::Waits(text) => log!(Level::Warn, "{text}"),
                reply => return Ok(Some((reply, fd))),
            }
        }
        Ok(None)
    }

    /// Asks as [`ask_for_file`](Self::ask_for_file), for an answer without a descriptor.
    ///
    /// # Errors
    /// As [`ask_for_file`](Self::ask_for_file).
    pub(super) fn ask(&self, request: &Request) -> io::Result<Option<Reply>> {
        Ok(self.ask_for_file(request)?.map(|(reply, _)| reply))
    }
}

/// An agent that was killed meanwhile is one that ends.
fn or_gone<T: Default>(result: io::Result<T>) -> io::Result<T> {
    match result {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
            ) =>
        {
            Ok(T::default())
        }
        result => result,
    }
}

/// Asks an agent one thing that needs no program; `None` if there is no agent.
pub(super) fn ask_once(dir: &str, request: &Request) -> io::Result<Option<Reply>> {
    Inquiry::to(dir)?.map_or(Ok(None), |inquiry| inquiry.ask(request))
}
