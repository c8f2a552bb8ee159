//! Drivers around another driver: one macro forwards the methods of the trait.

/// Defines `forward_driver!` from the signatures of the trait's methods.
///
/// The generated macro visits each method, removes the names of the exceptions one by one, and
/// writes the method if it was none of them. `$d` stands for a `$` of the generated macro.
macro_rules! define_forwarding {
    ($d:tt $(fn $name:ident(&self $(, $arg:ident: $ty:ty)*) $(-> $ret:ty)?;)*) => {
        /// Forwards the methods of [`Driver`](crate::driver::Driver) to the driver inside. To be
        /// used in `impl Driver for ...`:
        ///
        /// ```text
        /// forward_driver! {
        ///     through: inner,
        ///     here: [name size],
        ///     default: [[meter stamp] "the reason"],
        /// }
        /// ```
        ///
        /// `through` is a method that runs a closure on the driver inside, with the signature
        /// `fn inner<'a, T>(&'a self, act: impl FnOnce(&'a dyn Driver) -> T) -> T`. The `impl`
        /// itself has the methods `here`. Those of `default` keep the trait's own body. All others
        /// are forwarded.
        #[macro_export]
        macro_rules! forward_driver {
            (
                through: $d through:ident,
                here: [$d($d here:ident)*],
                default: [$d([$d($d default:ident)+] $d why:literal),* $d(,)?] $d(,)?
            ) => {
                $(forward_driver! {
                    @unless [$d($d here)* $d($d($d default)+)*] $d through $name
                })*
            };
            $(
                (@unless [$name $d($d rest:ident)*] $d through:ident $name) => {};
                (@unless [] $d through:ident $name) => {
                    fn $name(&self $(, $arg: $ty)*) $(-> $ret)? {
                        self.$d through(|driver| driver.$name($($arg),*))
                    }
                };
            )*
            (@unless [$d other:ident $d($d rest:ident)*] $d through:ident $d name:ident) => {
                forward_driver! { @unless [$d($d rest)*] $d through $d name }
            };
        }

        /// The methods that the macro knows.
        #[cfg(test)]
        const METHODS: &[&str] = &[$(stringify!($name)),*];
    };
}

// The paths hold in each crate that uses the macro.
define_forwarding! { $
    fn name(&self) -> &'static str;
    fn striped(&self) -> ::aggio_store::driver::Striped;
    fn pread(&self, buffer: &mut [u8], offset: u64) -> ::std::io::Result<usize>;
    fn pwrite(&self, buffer: &[u8], offset: u64) -> ::std::io::Result<usize>;
    fn preadv(
        &self, buffers: &mut [::std::io::IoSliceMut<'_>], offset: u64
    ) -> ::std::io::Result<usize>;
    fn pwritev(&self, buffers: &[::std::io::IoSlice<'_>], offset: u64) -> ::std::io::Result<usize>;
    fn in_place(
        &self,
        extent: ::aggio_base::Extent,
        access: ::aggio_store::driver::InPlace<'_>,
        copy: &mut dyn FnMut(*mut u8)
    ) -> bool;
    fn read_contig(
        &self, buffer: &mut [u8], offset: u64, counters: &::aggio_base::report::Counters
    ) -> ::aggio_store::driver::Outcome;
    fn write_contig(
        &self, buffer: &[u8], offset: u64, counters: &::aggio_base::report::Counters
    ) -> ::aggio_store::driver::Outcome;
    fn write_strided(
        &self,
        view: &::aggio_types::view::View,
        pos: u64,
        memory: &::aggio_types::memory::Memory,
        strategy: &::aggio_store::independent::Strategy,
        counters: &::aggio_base::report::Counters
    ) -> ::aggio_store::driver::Outcome;
    fn read_strided(
        &self,
        view: &::aggio_types::view::View,
        pos: u64,
        memory: &::aggio_types::memory::Memory,
        strategy: &::aggio_store::independent::Strategy,
        counters: &::aggio_base::report::Counters
    ) -> ::aggio_store::driver::Outcome;
    fn size(&self) -> ::aggio_base::Result<u64>;
    fn set_size(&self, size: u64) -> ::aggio_base::Result<()>;
    fn was_resized(&self, size: u64);
    fn sync(&self) -> ::aggio_base::Result<()>;
    fn renew(&self);
    fn close(&self, how: ::aggio_store::driver::Closing) -> ::aggio_base::Result<()>;
    fn completes_at_close(&self) -> bool;
    fn sealing(&self) -> Option<::aggio_store::driver::Sealing>;
    fn is_available(&self) -> bool;
    fn facts(&self) -> ::aggio_store::driver::Facts;
    fn meter(&self) -> Option<&::aggio_store::driver::latency::Meter>;
    fn stamp(&self) -> Option<::aggio_store::driver::Stamp>;
    fn background(&self) -> Option<::aggio_base::report::Totals>;
    fn direct(&self) -> (bool, bool);
    fn identity(&self) -> Option<::aggio_store::driver::Identity>;
    fn offer(&self) -> Option<::aggio_store::driver::Offer>;
    fn preallocate(&self, size: u64) -> ::aggio_base::Result<()>;
    fn reserve_zeros(&self, extent: ::aggio_base::Extent) -> ::aggio_base::Extent;
    fn reserve(&self, extent: ::aggio_base::Extent) -> ::aggio_base::Result<()>;
    fn ends_by(&self, offset: u64) -> bool;
    fn knows_bytes_behind(&self, offset: u64) -> bool;
    fn claim_room(&self, len: u64) -> bool;
    fn extend_with_zeros(
        &self, extent: ::aggio_base::Extent, counters: &::aggio_base::report::Counters
    ) -> bool;
    fn lock(
        &self, extent: ::aggio_base::Extent, exclusive: bool
    ) -> ::aggio_base::Result<Box<dyn ::aggio_comm::transport::LockGuard>>;
    fn try_lock(
        &self, extent: ::aggio_base::Extent, exclusive: bool
    ) -> ::aggio_base::Result<Option<Box<dyn ::aggio_comm::transport::LockGuard>>>;
}

#[cfg(test)]
mod tests {
    use super::METHODS;
    use std::collections::BTreeSet;

    /// A method that is missing in the table would keep the trait's body in every wrapper.
    #[test]
    fn the_macro_knows_every_method_of_the_trait() {
        let source = include_str!("mod.rs");
        let (_, body) = source.split_once("\npub trait Driver:").expect("the trait");
        let (body, _) = body.split_once("\n}\n").expect("its end");
        let method = |line: &'static str| line.strip_prefix("    fn ")?.split('(').next();
        let declared: BTreeSet<_> = body.lines().filter_map(method).collect();
        assert_eq!(declared, METHODS.iter().copied().collect());
    }
}
