//! Why a file, or one access to it, was left to the kernel.

macro_rules! reasons {
    ($($variant:ident $text:literal;)*) => {
        /// Why.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason { $(#[doc = $text] $variant),* }

        impl Reason {
            /// How many there are.
            pub const COUNT: usize = [$($text),*].len();
            /// Their words, in order of declaration.
            pub const TEXTS: [&'static str; Reason::COUNT] = [$($text),*];
        }
    };
}

reasons! {
    ModePosix "mode posix";
    Flags "opened with O_APPEND, O_DIRECT or O_SYNC";
    StandardStream "is standard input, output or error";
    Fork "shared with a child process";
    Inherited "open across exec";
    Vfork "used by a child process";
    Spawn "given to a spawned process";
    Passed "sent to another process";
    Mapped "mapped into memory";
    StatusFlags "its status flags were changed";
    Lease "has a lease or asks for notice";
    Asynchronous "asynchronous input and output";
    NoSpool "no room for the spool";
    NoPath "its name is not known";
    Ring "io_uring or libaio";
    Stream "a stream of the C library";
    Sendfile "sendfile, splice or copy_file_range";
    Control "ioctl";
    Unknown "a system call that is not known";
}
