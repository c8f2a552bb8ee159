//! Datasets: shape, type, layout, filters and fill value, taken out of an object header.

use super::datatype::{self, Datatype};
use super::header::{self, Message, kind};
use super::layout::{self, Found, Layout};
use super::properties::{self, Filling, Filter};
use super::reader::Reader;
use super::space::{self, Space};
use crate::error::{Kind, Result};

/// A dataset, as its object header describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// Its shape.
    pub space: Space,
    /// The type of its elements.
    pub datatype: Datatype,
    /// How its bytes are arranged.
    pub layout: Layout,
    /// Its fill value.
    pub filling: Filling,
    /// The filters of its chunks, in the order of writing.
    pub filters: Vec<Filter>,
}

/// Whether these are the messages of a dataset.
pub(super) fn is_dataset(messages: &[Message]) -> bool {
    messages.iter().any(|message| message.kind == kind::LAYOUT)
}

/// The dataset that has these messages.
pub(super) fn of(reader: &Reader<'_>, messages: &[Message]) -> Result<Dataset> {
    if messages.iter().any(|message| message.kind == kind::EXTERNAL) {
        return Err(reader.unsupported("its bytes are in other files"));
    }
    let wanted = |number: u8, what: &str| {
        let message = header::one(reader, messages, number)?;
        let message = message.ok_or_else(|| reader.corrupt(format!("no {what}")))?;
        header::body(reader, message)
    };
    let wrong = |what: &str| reader.corrupt(format!("the {what} is malformed"));
    let space = wanted(kind::DATASPACE, "dataspace")?;
    let space = space::parse(reader.cursor(&space)).ok_or_else(|| wrong("dataspace"))?;
    let datatype = wanted(kind::DATATYPE, "datatype")?;
    let datatype = datatype::parse(reader.cursor(&datatype)).ok_or_else(|| wrong("datatype"))?;
    let layout = wanted(kind::LAYOUT, "layout")?;
    let layout = match layout::parse(reader.cursor(&layout)).ok_or_else(|| wrong("layout"))? {
        Found::Layout(layout) => layout,
        Found::Unsupported(what) => return Err(reader.unsupported(what)),
    };
    if let Layout::Chunked(chunked) = &layout
        && chunked.shape.len() != space.shape().len()
    {
        return Err(wrong("number of dimensions of the chunks"));
    }
    let filters = match header::one(reader, messages, kind::FILTERS)? {
        Some(message) => {
            let body = header::body(reader, message)?;
            properties::filters(reader.cursor(&body)).ok_or_else(|| wrong("filter pipeline"))?
        }
        None => Vec::new(),
    };
    Ok(Dataset { space, datatype, layout, filling: filling(reader, messages)?, filters })
}

fn filling(reader: &Reader<'_>, messages: &[Message]) -> Result<Filling> {
    let wrong = || reader.corrupt("the fill value is malformed");
    if let Some(message) = header::one(reader, messages, kind::FILL)? {
        let body = header::body(reader, message)?;
        return properties::fill(reader.cursor(&body)).ok_or_else(wrong);
    }
    match header::one(reader, messages, kind::OLD_FILL)? {
        Some(message) => {
            let body = header::body(reader, message)?;
            properties::old_fill(reader.cursor(&body)).ok_or_else(wrong)
        }
        None => Ok(Filling::default()),
    }
}

impl Dataset {
    /// Bytes of all elements; `None` if there are more than a number holds.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.space.elements()?.checked_mul(self.datatype.size.into())
    }

    /// Chunks that the shape has room for; `None` without chunks, or if they cannot be counted.
    #[must_use]
    pub fn chunks(&self) -> Option<u64> {
        let Layout::Chunked(chunked) = &self.layout else { return None };
        let each = self.space.shape().iter().zip(&chunked.shape);
        each.map(|(length, of)| length.div_ceil(*of)).try_fold(1_u64, u64::checked_mul)
    }

    /// Where a contiguous dataset lies in the file: place and bytes; `None` if nothing is
    /// allocated.
    pub(super) fn contiguous(&self, reader: &Reader<'_>) -> Result<Option<(u64, u64)>> {
        let Layout::Contiguous { address: Some(address), size } = self.layout else {
            return Ok(None);
        };
        let wanted = self.bytes().ok_or_else(|| reader.corrupt("more elements than numbers"))?;
        if size.is_some_and(|size| size < wanted) {
            let what = format!("{wanted} bytes in a place of {} bytes", size.unwrap_or(0));
            return Err(reader.error(Kind::Corrupt, what));
        }
        Ok(Some((reader.place("a dataset", address, wanted)?, wanted)))
    }
}
