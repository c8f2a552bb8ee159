//! Unmodified programs are tested by two variables; this file is one process, with one test.

use agg_core::driver::{OpenHow, delete, open};
use agg_core::{ErrorClass, Result};

#[test]
fn the_environment_puts_faults_into_files_whose_names_have_no_prefix() {
    // SAFETY: no other thread of this process reads the environment meanwhile.
    unsafe {
        std::env::set_var("AGGIO_TEST_DRIVER", "1");
        std::env::set_var("AGGIO_TEST_FAULTS", "op=sync,errno=EIO;op=delete,nth=1,errno=EPERM");
    }
    let path = std::env::temp_dir().join(format!("agg-core-env-{}", std::process::id()));
    let path = path.to_str().unwrap();
    let opened = |name: String| {
        open(&OpenHow { path: name, create: true, write: true, ..OpenHow::default() }).unwrap()
    };
    let class_of = |result: Result<()>| result.unwrap_err().class();
    assert_eq!(class_of(opened(path.into()).sync()), ErrorClass::Io);
    assert_eq!(class_of(opened(format!("testfs:{path}")).sync()), ErrorClass::Io);
    assert_eq!(opened(format!("ufs:{path}")).sync(), Ok(()));
    assert_eq!(class_of(delete(path, 0)), ErrorClass::Access);
    assert_eq!(delete(path, 0), Ok(()));
}
