//! Reading a datatype that another rank sent.
//!
//! The bytes are not trusted: every node is built by the constructors that check their arguments,
//! so memory and time are bounded by the number of bytes, and all facts are computed here.

use super::encode::{BLOCKS, INDEXED, LEAF, REPEAT, SEQUENCE, VERSION};
use super::node::Node;
use super::{Basic, BasicKind, Datatype};
use aggio_base::error::{Error, ErrorClass, Result};
use std::sync::Arc;

/// Largest basic element, in bytes; real ones end at 32.
const MAX_BASIC: u64 = 4096;

/// The bytes that are still to be read.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

fn damaged(what: &str) -> Error {
    Error::new(ErrorClass::Intern, format!("datatype of another rank: {what}"))
}

impl<'a> Reader<'a> {
    pub(crate) fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.0.split_first().ok_or_else(|| damaged("it ends early"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn bytes(&mut self, len: u64) -> Result<&'a [u8]> {
        let len = usize::try_from(len).map_err(|_| damaged("it ends early"))?;
        let (head, rest) = self.0.split_at_checked(len).ok_or_else(|| damaged("it ends early"))?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn unsigned(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(damaged("a number is longer than 64 bits"))
    }

    pub(crate) fn signed(&mut self) -> Result<i64> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The length of a list with entries of at least `least` bytes each.
    fn list(&mut self, least: usize) -> Result<usize> {
        let len = usize::try_from(self.unsigned()?).map_err(|_| damaged("a list is too long"))?;
        if len > self.0.len() / least { Err(damaged("a list is too long")) } else { Ok(len) }
    }
}

impl Datatype {
    /// The datatype that [`Datatype::encode`] turned into `bytes`. They need not be trusted.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        let datatype = Self::read(&mut reader)?;
        if reader.0.is_empty() { Ok(datatype) } else { Err(damaged("bytes are left over")) }
    }

    /// Reads one datatype; the bytes behind it stay in `reader`.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        if reader.byte()? != VERSION {
            return Err(damaged("it is of another version"));
        }
        let count = reader.list(3)?;
        let mut nodes: Vec<Arc<Node>> = Vec::with_capacity(count);
        for _ in 0..count {
            let node = read_node(reader, &nodes)?;
            nodes.push(node);
        }
        let root = nodes.pop().ok_or_else(|| damaged("it has no node"))?;
        let (start, lb, ub) = (reader.signed()?, reader.signed()?, reader.signed()?);
        let explicit = reader.byte()? != 0;
        Datatype::from_parts(start, (lb, ub), explicit, root)
    }
}

fn read_node(reader: &mut Reader<'_>, nodes: &[Arc<Node>]) -> Result<Arc<Node>> {
    match reader.byte()? {
        LEAF => {
            let kind = BasicKind::ALL.get(usize::from(reader.byte()?));
            let kind = *kind.ok_or_else(|| damaged("an unknown basic element"))?;
            let (size, external) = (reader.unsigned()?, reader.unsigned()?);
            if size > MAX_BASIC || external > MAX_BASIC {
                return Err(damaged("a basic element is too large"));
            }
            Node::leaf(Basic::new(kind, size as u32, external as u32), reader.unsigned()?)
        }
        REPEAT => {
            let child = child(reader, nodes)?;
            let count = reader.unsigned()?;
            Node::repeat(count, reader.signed()?, child)
        }
        INDEXED => {
            let child = child(reader, nodes)?;
            let len = reader.list(1)?;
            let mut list = Vec::with_capacity(len);
            let mut at = 0i64;
            for _ in 0..len {
                at = at.wrapping_add(reader.signed()?);
                list.push(at);
            }
            first_is_zero(list.first().copied())?;
            Node::indexed(list, child)
        }
        BLOCKS => {
            let child = child(reader, nodes)?;
            let stride = reader.signed()?;
            let len = reader.list(2)?;
            let mut list = Vec::with_capacity(len);
            let mut at = 0i64;
            for _ in 0..len {
                let copies = reader.unsigned()?;
                at = at.wrapping_add(reader.signed()?);
                list.push((copies, at));
            }
            first_is_zero(list.first().map(|block| block.1))?;
            Ok(Node::blocks(&list, stride, child)?.1)
        }
        SEQUENCE => {
            let len = reader.list(2)?;
            let mut list = Vec::with_capacity(len);
            let mut at = 0i64;
            for _ in 0..len {
                let child = child(reader, nodes)?.clone();
                at = at.wrapping_add(reader.signed()?);
                list.push((at, child));
            }
            first_is_zero(list.first().map(|field| field.0))?;
            Ok(Node::sequence(list)?.1)
        }
        _ => Err(damaged("an unknown node")),
    }
}

fn child<'a>(reader: &mut Reader<'_>, nodes: &'a [Arc<Node>]) -> Result<&'a Arc<Node>> {
    let number = usize::try_from(reader.unsigned()?).ok();
    number.and_then(|number| nodes.get(number)).ok_or_else(|| damaged("a node has no such child"))
}

fn first_is_zero(first: Option<i64>) -> Result<()> {
    if first.unwrap_or(0) == 0 { Ok(()) } else { Err(damaged("a list does not start at 0")) }
}
