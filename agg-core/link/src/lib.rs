//! Messages between the agents of one user on several nodes: framed, checked, authenticated.
//!
//! A [`Link`] connects an agent with others. It sends [frames](Frame): a head, which the agents'
//! protocol parses, and a body of file bytes, which goes from the memory of one file straight into
//! that of another. Nothing that a stranger sends is parsed: both sides first prove that they have
//! the [`Token`], which never travels. Later frames are bounded in length and carry checksums; an
//! invalid frame ends that connection only.
//!
//! Bytes travel by a [`Wire`]: [plain TCP](tcp), or [UCX](ucx) where the user asks for it. Frames,
//! authentication and the suite of tests ([`conformance`]) are the same for both.
//!
//! The network is trusted not to change or read the bytes between two authenticated agents, as MPI
//! libraries trust it.

pub mod conformance;
mod frame;
mod framed;
pub mod handshake;
mod inbox;
mod link;
pub mod tcp;
mod token;
pub mod ucx;
mod wire;

pub use frame::{HEADER, VERSION};
pub use framed::Framed;
pub use link::{Body, Event, Frame, Limits, Link, Nowhere, Peer, Places, Received, Span};
pub use token::Token;
pub use wire::{Line, Piece, Read, Ready, Wire};
