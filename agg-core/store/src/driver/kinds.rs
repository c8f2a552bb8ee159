//! The kinds of storage of this crate.

use super::blob::Containers;
use super::couple::Coupled;
use super::fault::Test;
use super::latency::Meters;
use super::posix::Posix;
use super::table::{Drivers, Kind};
use aggio_config::settings::blobs::BlobRule;
use aggio_couple::Client;
use std::sync::Arc;

impl Default for Drivers {
    /// The drivers of this crate, where no new file becomes a container.
    fn default() -> Self {
        Self::new(&[], true)
    }
}

impl Drivers {
    /// The drivers of this crate. New files that match a rule of `rules` become containers;
    /// requests are timed, to learn their cost, if `measures`.
    ///
    /// With `AGGIO_TEST_DRIVER=1` ordinary names belong to the test driver.
    pub fn new(rules: &[BlobRule], measures: bool) -> Self {
        let test = std::env::var_os("AGGIO_TEST_DRIVER").is_some_and(|value| value == "1");
        let meters = Arc::new(Meters::new(measures));
        let posix = Posix::new(meters.clone());
        let containers = Arc::new(Containers::new(rules, meters.clone()));
        let kinds: Vec<Arc<dyn Kind>> =
            vec![Arc::new(posix.clone()), Arc::new(Test::new(posix)), containers.clone()];
        Self { kinds, containers, meters, test }
    }

    /// Adds files that programs exchange in memory; names that match a rule of `client` are served
    /// by no other kind.
    #[must_use]
    pub fn with_coupling(self, client: Client) -> Self {
        let posix = Posix::new(self.meters.clone());
        self.with(Arc::new(Coupled::new(client, posix)))
    }
}
