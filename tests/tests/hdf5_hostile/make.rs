//! Makes HDF5 files of arbitrary parts; checksums are zeros, which nobody verifies here.

/// A file with all objects in its root group.
pub(crate) struct File {
    bytes: Vec<u8>,
    /// Half of the children of nodes of groups; 0 for the usual number.
    pub(crate) nodes_of_groups: u16,
    /// The messages of the root group.
    pub(crate) root: Vec<u8>,
    count: usize,
}

/// A number as it is stored.
pub(crate) fn number(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

/// A message of an object header of version 2.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let size = (body.len() as u16).to_le_bytes();
    [&[kind, size[0], size[1], 0], body].concat()
}

fn object(messages: &[u8]) -> Vec<u8> {
    let size = (messages.len() as u32).to_le_bytes();
    [&b"OHDR\x02\x02"[..], &size, messages, &[0; 4]].concat()
}

impl File {
    pub(crate) fn new() -> Self {
        File { bytes: vec![0; 96], nodes_of_groups: 0, root: Vec::new(), count: 0 }
    }

    /// Where the next part begins.
    pub(crate) fn end(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn add(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(part);
    }

    /// An object of the root group.
    pub(crate) fn object(&mut self, messages: &[u8]) {
        let name = format!("o{}", self.count);
        self.count += 1;
        let body = [&[1, 0, name.len() as u8], name.as_bytes(), &number(self.end())].concat();
        self.root.extend(message(6, &body));
        self.add(&object(messages));
    }

    /// A dataset of bytes, with a layout message.
    pub(crate) fn dataset(&mut self, shape: &[u64], layout: &[u8]) {
        let lengths: Vec<u8> = shape.iter().copied().flat_map(number).collect();
        let limits = [lengths.clone(), lengths].concat();
        let space = [&[2, shape.len() as u8, 1, 1][..], &limits].concat();
        let kind = [0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0];
        self.object(&[message(1, &space), message(3, &kind), message(8, layout)].concat());
    }

    /// The bytes of the file.
    pub(crate) fn finish(&self) -> Vec<u8> {
        let root = self.end();
        let mut bytes = [&self.bytes[..], &object(&self.root)].concat();
        let end = bytes.len() as u64;
        let head = match self.nodes_of_groups {
            0 => {
                let numbers = [number(0), number(u64::MAX), number(end), number(root)].concat();
                [&b"\x89HDF\r\n\x1a\n\x02\x08\x08\x00"[..], &numbers, &[0; 4]].concat()
            }
            half => {
                let [low, high] = half.to_le_bytes();
                let sizes = [0, 0, 0, 0, 0, 8, 8, 0, 8, 0, low, high, 0, 0, 0, 0];
                let places = [number(0), number(u64::MAX), number(end), number(u64::MAX)].concat();
                let entry = [number(0), number(root), vec![0; 24]].concat();
                [&b"\x89HDF\r\n\x1a\n"[..], &sizes, &places, &entry].concat()
            }
        };
        bytes[..head.len()].copy_from_slice(&head);
        bytes
    }
}

/// A node of chunks of rank 1: where each begins in the dataset, and in the file.
pub(crate) fn tree_of_chunks(level: u8, chunks: &[(u64, u64)]) -> Vec<u8> {
    let count = (chunks.len() as u16).to_le_bytes();
    let mut node = [&b"TREE\x01"[..], &[level], &count, &[0xFF; 16]].concat();
    for (offset, place) in chunks {
        node.extend([vec![8, 0, 0, 0, 0, 0, 0, 0], number(*offset), number(0)].concat());
        node.extend(number(*place));
    }
    node.extend([0; 24]);
    node
}

/// A node of names with equal children.
pub(crate) fn tree_of_names(level: u8, count: u16, child: u64) -> Vec<u8> {
    let mut node = [&b"TREE\x00"[..], &[level], &count.to_le_bytes(), &[0xFF; 16]].concat();
    let entry = [number(0), number(child)].concat();
    node.extend(entry.repeat(count.into()));
    node.extend(number(0));
    node
}

/// Chunks of some bytes in a tree.
pub(crate) fn chunks_by_tree(bytes: u32, tree: u64) -> Vec<u8> {
    let lengths = [bytes.to_le_bytes(), 1_u32.to_le_bytes()].concat();
    [&[3, 2, 2][..], &number(tree), &lengths].concat()
}

/// Chunks of one byte in an index of version 4.
pub(crate) fn chunks_by(index: u8, parameters: usize, place: u64) -> Vec<u8> {
    [&[4, 2, 0, 2, 1, 1, 1, index][..], &vec![1; parameters], &number(place)].concat()
}
