//! The meaning of stored values of HDF5: lists are their elements in the heaps, references are
//! paths.

use aggio_formats::hdf5::{Details, Type};
use std::collections::{BTreeMap, HashMap};

/// An object with types and attributes to compare.
pub(super) struct Meaning<'a> {
    pub(super) details: Details<'a>,
    /// The path of each object header.
    pub(super) paths: &'a HashMap<u64, String>,
}

/// An attribute: its type and shape, and the meaning of its value.
type Told = (String, Vec<u8>);

impl<'a> Meaning<'a> {
    pub(super) fn details(&self) -> &Details<'a> {
        &self.details
    }

    /// The type of the object's elements.
    pub(super) fn datatype(&self) -> Result<Type, String> {
        self.details.datatype().map_err(|why| why.to_string())
    }

    /// All attributes.
    pub(super) fn attributes(&mut self) -> Result<BTreeMap<String, Told>, String> {
        let found = self.details.attributes().map_err(|why| why.to_string())?;
        let mut all = BTreeMap::new();
        for one in found {
            let size = one.of.size(self.details.address_bytes()).max(1);
            let mut value = Vec::new();
            for element in one.bytes.chunks(size) {
                self.add(&one.of, element, &mut value)?;
            }
            all.insert(one.name, (format!("{} {:?}", one.of, one.space.shape()), value));
        }
        Ok(all)
    }

    /// The meaning of an element.
    pub(super) fn value(&mut self, of: &Type, element: &[u8]) -> Result<Vec<u8>, String> {
        let mut value = Vec::new();
        self.add(of, element, &mut value)?;
        Ok(value)
    }

    fn add(&self, of: &Type, element: &[u8], value: &mut Vec<u8>) -> Result<(), String> {
        match of {
            Type::Plain { .. } => value.extend_from_slice(element),
            Type::Object { .. } => {
                let address = element.iter().take(8).rev();
                let address = address.fold(0, |all, byte| all << 8 | u64::from(*byte));
                let is_null = element.iter().all(|byte| *byte == 0);
                let path = match self.paths.get(&address) {
                    Some(path) => path.as_str(),
                    None if is_null || element.iter().all(|byte| *byte == 0xFF) => "",
                    None => return Err(format!("a reference leads to no object, at {address}")),
                };
                value.extend_from_slice(path.as_bytes());
                value.push(0);
            }
            Type::Part { .. } => return Err(format!("cannot be compared: {of}")),
            Type::List(inner) => {
                let (count, bytes) = self.details.list(element).map_err(|why| why.to_string())?;
                value.extend(count.to_le_bytes());
                let size = inner.size(self.details.address_bytes());
                let mut elements = bytes.chunks_exact(size.max(1));
                for _ in 0..count {
                    self.add(inner, elements.next().ok_or("a list is too short")?, value)?;
                }
            }
            Type::Compound { members, .. } => {
                for (_, at, inner) in members {
                    let end = at + inner.size(self.details.address_bytes());
                    let member = element.get(*at..end).ok_or("a compound is too short")?;
                    self.add(inner, member, value)?;
                }
            }
            Type::Array { of, .. } => {
                for one in element.chunks(of.size(self.details.address_bytes()).max(1)) {
                    self.add(of, one, value)?;
                }
            }
        }
        Ok(())
    }
}
