//! A cluster file system between simulated hosts: GlusterFS, with its default options.

use super::{Cluster, is_root};
use std::path::PathBuf;

impl Cluster {
    /// Mounts one GlusterFS at the same path on every host. Returns `None`, and prints a note, if
    /// this machine cannot have one. It is removed with the cluster.
    ///
    /// # Panics
    ///
    /// If it cannot be mounted although the tests are required to run.
    pub fn gluster(&self) -> Option<PathBuf> {
        match self.start_gluster() {
            Ok(point) => Some(point),
            Err(why) => {
                crate::skip(&why);
                None
            }
        }
    }

    fn start_gluster(&self) -> Result<PathBuf, String> {
        if !is_root() {
            return Err("only root can serve a GlusterFS".into());
        }
        let installed = ["/usr/sbin/glusterd", "/sbin/glusterd"];
        if !installed.iter().any(|path| std::path::Path::new(path).exists()) {
            return Err("glusterd is missing (tests/setup.sh check-long)".into());
        }
        let point = self.directory().join("gluster");
        std::fs::create_dir(&point).map_err(|error| format!("{}: {error}", point.display()))?;
        let script = crate::repository().join("tests/hosts/gluster.sh");
        for (number, host) in self.names().iter().enumerate() {
            let what = if number == 0 { "serve" } else { "mount" };
            let mut command = self.launch().command(host);
            command.arg("sh").arg(&script).args([what, "10.77.0.1"]).arg(&point);
            let output = command.output().map_err(|error| error.to_string())?;
            if !output.status.success() {
                let words = String::from_utf8_lossy(&output.stderr);
                return Err(format!("GlusterFS does not start on {host}: {words}"));
            }
        }
        Ok(point)
    }
}
