//! The expansion of a row of the table of interposed functions: exported functions and ways to the
//! next ones. See `symbols` for the kinds of rows.

/// The functions of all names of a row.
macro_rules! rows {
    ([$($name:ident)*] $kind:ident $arguments:tt [$ret:ty] $file:tt $body:tt) => {
        $(row! { $kind $name $arguments [$ret] $file $body })*
    };
}

macro_rules! row {
    // The file of the name may be another one than the kernel sees.
    (path $name:ident ($($arg:ident: $ty:ty),*) [$ret:ty] [] { $($body:tt)* }) => {
        row! { any $name ($($arg: $ty),*) [$ret] [] {
            settle::all();
            let done: Option<$ret> = { $($body)* };
            match done {
                Some(done) => done,
                None => next::$name($($arg),*),
            }
        } }
    };
    // The table is asked once for the open file of the descriptor.
    ($kind:ident $name:ident ($fd:ident: $fdty:ty $(, $arg:ident: $ty:ty)*) [$ret:ty]
        [$file:ident] { $($body:tt)* }) => {
        row! { any $name ($fd: $fdty $(, $arg: $ty)*) [$ret] [] {
            if let Some($file) = served::of($fd) {
                $($body)*
            } else {
                before!($kind);
                next::$name($fd $(, $arg)*)
            }
        } }
    };
    (any $name:ident ($($arg:ident: $ty:ty),*) [$ret:ty] [] { $($body:tt)* }) => {
        const _: () = {
            // SAFETY: the signature is the one that the C library has for this name.
            #[cfg_attr(not(test), unsafe(export_name = stringify!($name)))]
            #[cfg_attr(test, allow(dead_code, reason = "nobody is interposed in tests"))]
            unsafe extern "C" fn hook($($arg: $ty),*) -> $ret {
                if !state::active() {
                    // SAFETY: the caller's arguments, passed on.
                    return unsafe { next::$name($($arg),*) };
                }
                // SAFETY: the caller satisfies the requirements of the C library for these
                // arguments.
                #[allow(unused_unsafe, reason = "not every row needs it")]
                unsafe { $($body)* }
            }
        };
    };
}

/// Before the kernel serves a descriptor that is not ours.
macro_rules! before {
    (fd) => {};
    (out) => {
        settle::causal();
    };
}

macro_rules! next {
    ($name:ident ($($arg:ident: $ty:ty),*) [$ret:ty]) => {
        /// Calls the next function of this name.
        ///
        /// # Safety
        /// The arguments satisfy the requirements of the function.
        #[inline(always)]
        #[allow(clippy::too_many_arguments, reason = "the C library's signature")]
        pub unsafe fn $name($($arg: $ty),*) -> $ret {
            match slots::$name.get() {
                0 => Missing::missing(),
                // SAFETY: the next function has the signature that the C library declares.
                address => unsafe {
                    let next: unsafe extern "C" fn($($ty),*) -> $ret = std::mem::transmute(address);
                    next($($arg),*)
                },
            }
        }
    };
}

/// A call that removes the previous file of the name `$path`, which may have staged bytes, or an
/// empty directory.
macro_rules! losing {
    ($at:expr, $path:expr, $call:expr) => {
        staged::losing($at, $path, || containers::without_directory($at, $path, || $call))
    };
}
