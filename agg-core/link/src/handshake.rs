//! Mutual proof that both sides have the token, which never travels: pure, without I/O.
//!
//! | from | bytes | contents |
//! |---|---|---|
//! | the caller | 32 | introduction: `aggiolnk`, version, role, zeros, 16 random bytes |
//! | the listener | 32 + 16 | its introduction, and its proof |
//! | the caller | 16 | its proof |
//!
//! A proof is the keyed digest of the prover's role and both introductions. All lengths are fixed,
//! so nothing that a stranger sends is ever parsed: it is compared.

use crate::frame::VERSION;
use crate::token::{Token, random};
use std::io;

/// Bytes of an introduction.
pub const INTRODUCTION: usize = 32;

/// Bytes of a proof.
pub const PROOF: usize = 16;

const MAGIC: &[u8; 8] = b"aggiolnk";

/// The side that connects or the side that accepts. No proof of one is ever one of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Connects.
    Caller = 1,
    /// Accepts.
    Listener = 2,
}

impl Role {
    fn other(self) -> Self {
        match self {
            Role::Caller => Role::Listener,
            Role::Listener => Role::Caller,
        }
    }
}

/// The handshake of one side, until it has ended.
pub struct Handshake {
    role: Role,
    token: Token,
    own: [u8; INTRODUCTION],
    /// The other side's, once it is there.
    other: Option<[u8; INTRODUCTION]>,
}

/// The next step after bytes of the other side were taken.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes to send.
    pub send: Vec<u8>,
    /// Whether the other side has proved that it has the token.
    pub done: bool,
}

fn refused(kind: io::ErrorKind, why: impl Into<String>) -> io::Error {
    io::Error::new(kind, why.into())
}

/// Compares in a time that does not depend on the place of a difference.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let different = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && std::hint::black_box(different) == 0
}

impl Handshake {
    /// Begins: the bytes to send at once.
    ///
    /// # Errors
    /// The system's, if it has no random bytes.
    pub fn new(role: Role, token: &Token) -> io::Result<(Self, Vec<u8>)> {
        let mut own = [0; INTRODUCTION];
        own[..8].copy_from_slice(MAGIC);
        own[8..10].copy_from_slice(&VERSION.to_le_bytes());
        own[10] = role as u8;
        random(&mut own[16..])?;
        let first = if role == Role::Caller { own.to_vec() } else { Vec::new() };
        Ok((Self { role, token: token.clone(), own, other: None }, first))
    }

    /// Number of bytes of the other side that [`Handshake::take`] needs.
    pub fn wants(&self) -> usize {
        if self.other.is_none() { INTRODUCTION } else { PROOF }
    }

    /// Takes exactly [`wants`](Handshake::wants) bytes.
    ///
    /// # Errors
    /// `InvalidData` if the other side is no agent, `Unsupported` if it is one of another version,
    /// `PermissionDenied` if it does not have the token. Bytes of `Step::send` of earlier steps
    /// have been sent; no more may be sent.
    pub fn take(&mut self, bytes: &[u8]) -> io::Result<Step> {
        match self.other {
            None => self.meet(bytes),
            Some(other) => self.verify(&other, bytes),
        }
    }

    /// The bytes that the other side should see before the connection ends for this introduction.
    pub fn parting(&self) -> &[u8] {
        if self.role == Role::Listener { &self.own } else { &[] }
    }

    fn meet(&mut self, bytes: &[u8]) -> io::Result<Step> {
        let other = bytes.first_chunk::<INTRODUCTION>();
        let other = *other.filter(|other| other.starts_with(MAGIC)).ok_or_else(|| {
            refused(io::ErrorKind::InvalidData, "it does not introduce itself as an agent of aggio")
        })?;
        let version = u16::from_le_bytes([other[8], other[9]]);
        if version != VERSION {
            let why = format!("its version is {version}, this one is {VERSION}");
            return Err(refused(io::ErrorKind::Unsupported, why));
        }
        if other[10] != self.role.other() as u8 {
            return Err(refused(io::ErrorKind::InvalidData, "both sides have the same role"));
        }
        self.other = Some(other);
        let send = match self.role {
            Role::Listener => [&self.own[..], &self.proof_of(self.role, &other)].concat(),
            Role::Caller => Vec::new(),
        };
        Ok(Step { send, done: false })
    }

    fn verify(&self, other: &[u8; INTRODUCTION], proof: &[u8]) -> io::Result<Step> {
        if !is_same(proof, &self.proof_of(self.role.other(), other)) {
            return Err(refused(io::ErrorKind::PermissionDenied, "it does not know the token"));
        }
        let send = match self.role {
            Role::Caller => self.proof_of(self.role, other).to_vec(),
            Role::Listener => Vec::new(),
        };
        Ok(Step { send, done: true })
    }

    /// The proof of `prover`.
    fn proof_of(&self, prover: Role, other: &[u8; INTRODUCTION]) -> [u8; PROOF] {
        let (caller, listener) = match self.role {
            Role::Caller => (&self.own, other),
            Role::Listener => (other, &self.own),
        };
        self.token.prove(&[&[prover as u8][..], caller, listener].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(byte: u8) -> Token {
        Token::from_bytes(&[byte; 32])
    }

    /// The errors of caller and listener; both tokens are given.
    fn meet(caller: &Token, listener: &Token) -> (io::Result<Step>, io::Result<Step>) {
        let (mut one, first) = Handshake::new(Role::Caller, caller).unwrap();
        let (mut two, nothing) = Handshake::new(Role::Listener, listener).unwrap();
        assert!(nothing.is_empty());
        let answer = two.take(&first).unwrap();
        assert!(!answer.done);
        let (introduction, proof) = answer.send.split_at(INTRODUCTION);
        assert!(!one.take(introduction).unwrap().done);
        let last = one.take(proof);
        let sent = last.as_ref().map_or(vec![0; PROOF], |step| step.send.clone());
        let end = two.take(&sent);
        (last, end)
    }

    #[test]
    fn who_knows_the_token_is_let_in_on_both_sides() {
        let (caller, listener) = meet(&token(1), &token(1));
        assert!(caller.unwrap().done && listener.unwrap().done);
    }

    #[test]
    fn who_does_not_know_the_token_is_let_in_on_no_side() {
        let (caller, listener) = meet(&token(1), &token(2));
        assert_eq!(caller.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(listener.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn what_was_heard_once_proves_nothing_again() {
        let token = token(3);
        let (mut caller, first) = Handshake::new(Role::Caller, &token).unwrap();
        let (mut listener, _) = Handshake::new(Role::Listener, &token).unwrap();
        let answer = listener.take(&first).unwrap().send;
        caller.take(&answer[..INTRODUCTION]).unwrap();
        let proof = caller.take(&answer[INTRODUCTION..]).unwrap().send;
        let (mut again, _) = Handshake::new(Role::Listener, &token).unwrap();
        again.take(&first).unwrap();
        assert_eq!(again.take(&proof).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_listener_cannot_be_shown_its_own_proof() {
        let token = token(4);
        let (mut listener, _) = Handshake::new(Role::Listener, &token).unwrap();
        let (_, first) = Handshake::new(Role::Caller, &token).unwrap();
        let answer = listener.take(&first).unwrap().send;
        listener.take(&answer[INTRODUCTION..]).unwrap_err();
        let (mut other, _) = Handshake::new(Role::Listener, &token).unwrap();
        assert!(other.take(&answer[..INTRODUCTION]).unwrap_err().to_string().contains("role"));
    }

    #[test]
    fn another_version_and_other_programs_are_named() {
        let (mut listener, _) = Handshake::new(Role::Listener, &token(5)).unwrap();
        let (_, mut first) = Handshake::new(Role::Caller, &token(5)).unwrap();
        first[8] = 99;
        let error = listener.take(&first).unwrap_err();
        assert_eq!(error.to_string(), format!("its version is 99, this one is {VERSION}"));
        let error = listener.take(b"GET / HTTP/1.1\r\nHost: localhost\r\n").unwrap_err();
        assert!(error.to_string().contains("does not introduce itself"), "{error}");
    }
}
