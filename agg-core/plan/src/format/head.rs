//! The known first bytes of a file.

use aggio_base::Extent;

/// Some of the first bytes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    bytes: Vec<u8>,
    /// Which of them are known: in order, not empty, with gaps between them.
    known: Vec<Extent>,
}

impl Head {
    /// Whether no byte is known.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The known bytes from the beginning of the file on.
    pub(super) fn prefix(&self) -> &[u8] {
        match self.known.first() {
            Some(first) if first.offset == 0 => &self.bytes[..first.len as usize],
            _ => &[],
        }
    }

    /// From now on `bytes` are at `offset`; those behind the first `most` bytes of the file are
    /// left out.
    pub(super) fn put(&mut self, offset: u64, bytes: &[u8], most: u64) {
        let extent = Extent::new(offset, bytes.len() as u64).intersect(Extent::new(0, most));
        if extent.is_empty() {
            return;
        }
        let (start, end) = (extent.offset as usize, extent.end() as usize);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(&bytes[..end - start]);
        self.learn(extent);
    }

    /// Whether `bytes` are known to be at `offset` already, of those among the first `most` bytes
    /// of the file.
    pub(super) fn holds(&self, offset: u64, bytes: &[u8], most: u64) -> bool {
        let extent = Extent::new(offset, bytes.len() as u64).intersect(Extent::new(0, most));
        let known = |known: &Extent| known.intersect(extent) == extent;
        extent.is_empty()
            || self.known.iter().any(known)
                && self.bytes[extent.offset as usize..extent.end() as usize]
                    == bytes[..extent.len as usize]
    }

    fn learn(&mut self, new: Extent) {
        let touches = |old: &Extent| old.offset <= new.end() && new.offset <= old.end();
        let touched = || self.known.iter().filter(|old| touches(old));
        let start = touched().map(|old| old.offset).min().unwrap_or(new.offset).min(new.offset);
        let end = touched().map(|old| old.end()).max().unwrap_or(new.end()).max(new.end());
        self.known.retain(|old| !touches(old));
        let place = self.known.partition_point(|old| old.offset < start);
        self.known.insert(place, Extent::between(start, end));
    }

    /// The file ends at `size`.
    pub(super) fn truncate(&mut self, size: u64) {
        let left = Extent::new(0, size);
        self.known = self.known.iter().map(|known| known.intersect(left)).collect();
        self.known.retain(|known| !known.is_empty());
        self.bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
    }

    /// Writes all known bytes of `newer` over this.
    pub(super) fn put_all(&mut self, newer: &Head, most: u64) {
        for extent in &newer.known {
            let bytes = &newer.bytes[extent.offset as usize..extent.end() as usize];
            self.put(extent.offset, bytes, most);
        }
    }

    /// The known ranges as a message to other ranks.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for extent in &self.known {
            all.extend_from_slice(&extent.offset.to_le_bytes());
            all.extend_from_slice(&extent.len.to_le_bytes());
            all.extend_from_slice(&self.bytes[extent.offset as usize..extent.end() as usize]);
        }
        all
    }

    /// Writes the heads of other ranks, end to end in `all`, over this one, in order. `None` if
    /// they are damaged.
    pub(super) fn put_bytes(&mut self, mut all: &[u8], most: u64) -> Option<()> {
        while !all.is_empty() {
            let (offset, rest) = all.split_first_chunk()?;
            let (len, rest) = rest.split_first_chunk()?;
            let (offset, len) = (u64::from_le_bytes(*offset), u64::from_le_bytes(*len));
            let (bytes, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            self.put(offset, bytes, most);
            all = rest;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: u64 = 60;

    fn model(writes: &[(u64, Vec<u8>)]) -> Vec<Option<u8>> {
        let mut model = vec![None; MOST as usize];
        for (offset, bytes) in writes {
            for (at, byte) in (*offset..MOST).zip(bytes) {
                model[at as usize] = Some(*byte);
            }
        }
        model
    }

    fn seen(head: &Head) -> Vec<Option<u8>> {
        let known = |at: u64| head.known.iter().any(|known| known.offset <= at && at < known.end());
        (0..MOST).map(|at| known(at).then(|| head.bytes[at as usize])).collect()
    }

    fn writes() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
        proptest::collection::vec((0..70u64, proptest::collection::vec(any::<u8>(), 0..20)), 0..12)
    }

    proptest! {
        #[test]
        fn a_head_knows_what_was_written_last_wherever_it_came_from(
            here in writes(), there in writes(), cut in 0..70u64,
        ) {
            let put = |writes: &[(u64, Vec<u8>)]| {
                let mut head = Head::default();
                writes.iter().for_each(|(offset, bytes)| head.put(*offset, bytes, MOST));
                head
            };
            let (mut head, other) = (put(&here), put(&there));
            prop_assert_eq!(seen(&head), model(&here));
            let prefix: Vec<u8> = model(&here).iter().map_while(|byte| *byte).collect();
            prop_assert_eq!(head.prefix(), &prefix[..]);
            let mut copy = head.clone();
            head.put_all(&other, MOST);
            prop_assert_eq!(copy.put_bytes(&other.to_bytes(), MOST), Some(()));
            prop_assert_eq!(&copy, &head);
            let mut both = model(&[here, there].concat());
            prop_assert_eq!(seen(&head), both.clone());
            head.truncate(cut);
            both.iter_mut().skip(cut as usize).for_each(|byte| *byte = None);
            prop_assert_eq!(seen(&head), both);
        }

        #[test]
        fn damaged_bytes_are_no_head(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Head::default().put_bytes(&bytes, MOST);
        }
    }
}
