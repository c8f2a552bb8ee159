//! Flush on demand between nodes, by messages over TCP: a rank with buffered writes may be in no
//! call of MPI.
//!
//! Rank 0 has a thread (`hub.rs`) that forwards each question to a thread of the first rank of
//! every node (`node.rs`). That thread makes the ranks of its node store their buffered writes,
//! through the counters in the memory of the node ([`Holders`]). A rank connects to the hub when it
//! asks for the first time (`asker.rs`). The hub refuses connections without a secret of the job.

mod asker;
mod hub;
mod message;
mod node;
#[cfg(test)]
mod tests;
mod thread;

pub use message::{Answer, Question};

use crate::group;
use crate::task;
use crate::transport::{Holders, Transport};
use crate::workers::Workers;
use aggio_base::error::{Error, ErrorClass, Result};
use aggio_link::tcp::{Tcp, own_address};
use aggio_link::{Framed, Link, Token};
use asker::Asker;
use hub::Hub;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thread::{LIMITS, Thread, serve};

/// Bytes of a token.
const TOKEN: usize = 32;

/// A rank's access to the buffered writes of one file on other nodes.
pub struct NodeAsks {
    address: String,
    token: Token,
    asker: Mutex<Option<Asker>>,
    /// The threads that this rank runs for the others.
    threads: Vec<Thread>,
}

impl std::fmt::Debug for NodeAsks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeAsks").field("address", &self.address).finish_non_exhaustive()
    }
}

impl NodeAsks {
    /// Connects all nodes; collective. Each rank passes the `holders` of its node. Rank 0 decides
    /// with `tried`; without it, the result is `None` on all ranks.
    ///
    /// # Errors
    /// On all ranks alike, if a node cannot reach the first one, or has no memory of its own.
    pub async fn connect(
        transport: &Arc<dyn Transport>,
        [first, second]: [u32; 2],
        holders: Option<&Holders>,
        workers: &Workers,
        tried: bool,
    ) -> Result<Option<Self>> {
        let mut threads = Vec::new();
        let mut message = vec![u8::from(tried)];
        if tried
            && transport.rank() == 0
            && let Ok((hub, token, address)) = start_hub(transport, workers)
        {
            threads.push(hub);
            message = [&message[..], &token.to_bytes(), address.as_bytes()].concat();
        }
        let message = group::bcast(&**transport, first, 0, message).await?;
        if message.first() != Some(&1) {
            return Ok(None);
        }
        let joined = join(transport, &message[1..], holders, workers);
        let local = joined.as_ref().map(drop).map_err(|why| {
            let text = format!("rank {}: {why}", transport.rank());
            Error::new(ErrorClass::Other, text)
        });
        group::agree(&**transport, second, local).await?;
        let gone = |_| Error::new(ErrorClass::Intern, "nodes agreed on but not connected");
        let (address, token, node) = joined.map_err(gone)?;
        threads.extend(node);
        Ok(Some(Self { address, token, asker: Mutex::default(), threads }))
    }

    /// Asks, and waits for the answer while other work may proceed.
    pub async fn ask(&self, question: Question) -> Answer {
        let Ok(number) = self.begin(question) else { return Answer::Failed };
        loop {
            match self.answer(number) {
                Some(answer) => return answer,
                None => task::pause().await,
            }
        }
    }

    /// Asks, and waits for the answer for a while.
    pub fn ask_until(&self, question: Question, end: Instant) -> Answer {
        let Ok(number) = self.begin(question) else { return Answer::Failed };
        loop {
            match self.answer(number) {
                Some(answer) => return answer,
                None if Instant::now() >= end => return Answer::Failed,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn begin(&self, question: Question) -> io::Result<u64> {
        let mut asker = self.asker();
        if asker.is_none() {
            *asker = Some(Asker::connect(&self.address, self.token.clone())?);
        }
        asker.as_mut().map_or(Err(io::ErrorKind::NotConnected.into()), |own| own.ask(question))
    }

    fn answer(&self, number: u64) -> Option<Answer> {
        let mut asker = self.asker();
        asker.as_mut().map_or(Some(Answer::Failed), |asker| {
            asker.answer(number).unwrap_or(Some(Answer::Failed))
        })
    }

    fn asker(&self) -> MutexGuard<'_, Option<Asker>> {
        self.asker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No thread serves the others any more when this returns.
    pub fn stop(&self) {
        self.threads.iter().rev().for_each(Thread::stop);
    }
}

/// Starts the hub; its thread, the secret, and where it is reached.
fn start_hub(
    transport: &Arc<dyn Transport>,
    workers: &Workers,
) -> io::Result<(Thread, Token, String)> {
    let token = Token::fresh()?;
    let (nodes, secret) = (transport.nodes().count(), token.clone());
    let wire = Tcp::listen(own_address())?;
    let mut link = Framed::new(wire, secret, LIMITS);
    let address = link.address();
    let thread = Thread::start(workers, move |bell, stop| {
        let mut hub = Hub::new(nodes);
        // If the thread ends, ranks that ask get an error from the closed connection.
        drop(serve(&mut link, bell, stop, |event| hub.take(event)));
    })?;
    Ok((thread, token, address))
}

/// Connects this rank to the hub; the first rank of each node also starts its thread.
fn join(
    transport: &Arc<dyn Transport>,
    message: &[u8],
    holders: Option<&Holders>,
    workers: &Workers,
) -> io::Result<(String, Token, Option<Thread>)> {
    let unheard = || io::Error::other("the first rank cannot listen");
    let (token, address) = message.split_first_chunk::<TOKEN>().ok_or_else(unheard)?;
    let (token, address) = (Token::from_bytes(token), String::from_utf8_lossy(address));
    let holders = holders.ok_or_else(|| io::Error::other("the node shares no memory"))?;
    let rank = transport.rank();
    let thread = (transport.nodes().first_beside(rank) == rank)
        .then(|| node::start(transport, holders, &address, &token, workers));
    Ok((address.into_owned(), token, thread.transpose()?))
}
