//! Ways of carrying out a call and reasons for them, with the words of the report.

/// Declares an enum in which each value has words for the user.
macro_rules! worded {
    ($(#[doc = $doc:literal])+ $name:ident {
        $($(#[doc = $about:literal])+ $value:ident $words:literal;)*
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[doc = $about])+ $value,)* }

        impl $name {
            /// Every value, in the order of the report.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];

            /// The words for the user.
            pub fn words(self) -> &'static str {
                match self { $(Self::$value => $words,)* }
            }
        }
    };
}

worded! {
    /// How a collective call is carried out.
    Way {
        /// Each rank accesses the file for itself.
        Independent "independent";
        /// In two phases; data passes through memory that the ranks share.
        Memory "two-phase in shared memory";
        /// In two phases; data passes through memory that the ranks of a node share, and travels in
        /// messages between nodes.
        Nodes "two-phase in shared memory of nodes";
        /// In two phases; data travels in messages from rank to rank.
        Messages "two-phase with messages";
    }
}

worded! {
    /// The rule that chose how a collective call is carried out.
    Reason {
        /// The call fails, so that nothing is carried out.
        Wrong "the arguments of a rank are wrong";
        /// Nothing is carried out.
        Nothing "no rank has data";
        /// Aggregators find a rank's part by file order, which such a view does not have.
        Overlap "a view overlaps itself";
        /// The application promised to use collective calls only.
        OnlyCollective "hint romio_no_indep_rw";
        /// The hint for this direction.
        Enabled "hint romio_cb_read or romio_cb_write is enable";
        /// The hint for this direction.
        Disabled "hint romio_cb_read or romio_cb_write is disable";
        /// The file was opened by one rank.
        OnlyRank "no other rank";
        /// The others bring nothing.
        OneWithData "only one rank has data";
        /// Nothing to join: each rank appends to its own log.
        Logs "each rank has a log of the container";
        /// Copying takes less time than a request.
        Staged "small parts wait in the stage";
        /// Aggregators make fewer requests.
        Interleaved "requests of ranks interleave";
        /// Aggregators make fewer requests.
        Small "small pieces";
        /// Nothing to gain from an exchange.
        LargeSeparate "large separate pieces";
        /// Little to join, and requests cost less than passing the bytes.
        Separate "separate pieces and cheap requests on one node";
        /// Requests of their own cost less than passing the bytes.
        Cheap "pieces large for what a request costs";
        /// The rank did not wait for the summaries of the others.
        Habit "every rank as in its last call";
        /// Only data that others touch is exchanged.
        Chunks "chunks of one rank by that rank";
        /// The hint asks for all chunks in one exchange.
        ChunkNumber "setting chunk_opt_num";
        /// The hint selects the chunks that are exchanged.
        ChunkRatio "setting chunk_opt_ratio";
        /// A slow file system shall deliver each byte once.
        Shared "ranks read the same bytes";
    }
}

worded! {
    /// Something that made a call slower than it could be, or that a user may wonder about.
    Note {
        /// The system refused it, or a rank's process cannot reach that of another.
        NoMemory "no shared memory on this node: messages";
        /// Overlapping writes of an atomic file have an order, which messages keep.
        Atomic "atomic mode: messages";
        /// Windows of shared memory would be nearly empty.
        FarApart "data far apart in the file: messages";
        /// One more copy would take longer than the requests that it saves.
        Straight "writes that waiting would slow down: straight to the file";
        /// The file system, or the way the file is opened, has no mapping for exact writes.
        Unmapped "no mapping of the file: small pieces written one by one";
    }
}
