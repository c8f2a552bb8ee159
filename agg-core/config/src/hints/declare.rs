//! The macro behind the table of hints: one entry makes a struct field, a default and a
//! declaration.

/// The Rust type that holds a hint of a kind.
macro_rules! field_type {
    (Switch) => {
        Switch
    };
    (Flag) => {
        bool
    };
    (Enable) => {
        bool
    };
    (Size) => {
        u64
    };
    (Count) => {
        u32
    };
    (Octal) => {
        u32
    };
    (Offset) => {
        i64
    };
    (Text) => {
        std::borrow::Cow<'static, str>
    };
    (Choice) => {
        std::borrow::Cow<'static, str>
    };
    (Format) => {
        super::Chosen
    };
}

/// The key in an `MPI_Info`: the field's name, unless the entry says otherwise.
macro_rules! key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

/// Reads entries of the form
///
/// ```text
/// /// Its effect.
/// field ("KEY")?: Kind(bounds)? = default; Family Effect [traits];
/// ```
macro_rules! hints {
    ($($(#[doc = $doc:literal])+ $field:ident $($key:literal)?: $kind:ident $(($($bound:expr),+))?
        = $default:expr; $family:ident $effect:ident $([$($flag:ident),+])?;)*) => {
        /// The value of every hint, one field each; a field has the hint's name.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Hints {
            $($(#[doc = $doc])+ pub $field: field_type!($kind),)*
            /// Where each value comes from, in the order of [`Declaration::ALL`].
            pub(super) origins: [Origin; Declaration::ALL.len()],
            /// Requested values that the engine could not use: position in the table, origin,
            /// value.
            pub(super) asked: Vec<(usize, Origin, String)>,
        }

        impl Default for Hints {
            /// Takes no memory but its own: a file that is opened begins with it.
            fn default() -> Self {
                Self {
                    $($field: $default.into(),)*
                    origins: [Origin::Default; Declaration::ALL.len()],
                    asked: Vec::new(),
                }
            }
        }

        impl Declaration {
            /// Every hint, in the order of the documentation.
            pub const ALL: &'static [Declaration] = &[$(Declaration {
                name: key!($field $($key)?),
                doc: concat!($($doc, "\n"),+),
                kind: Kind::$kind $(($($bound),+))?,
                family: Family::$family,
                effect: Effect::$effect,
                traits: Traits::NONE $($(.$flag())+)?,
                set: |hints, text| hints.$field.accept(&Kind::$kind $(($($bound),+))?, text),
                show: |hints, to| hints.$field.show(&Kind::$kind $(($($bound),+))?, to),
            }),*];
        }
    };
}

pub(super) use {field_type, hints, key};
