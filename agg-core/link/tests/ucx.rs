//! UCX does what every link must do, where it is installed.

use aggio_link::conformance;
use aggio_link::ucx::{ENVIRONMENT, Ucx};
use std::io;
use std::net::{IpAddr, Ipv4Addr};

fn listen() -> io::Result<Ucx> {
    Ucx::listen(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

#[test]
fn ucx_is_a_link() {
    for (name, value) in ENVIRONMENT {
        // SAFETY: the only test of this program, and no other thread reads the environment.
        unsafe { std::env::set_var(name, value) };
    }
    // SAFETY: as above.
    unsafe { std::env::set_var("UCX_TLS", "tcp") };
    match listen() {
        Ok(_) => conformance::run(listen),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            println!("skipped: {error}");
            let required = std::env::var_os("AGGIO_TESTS").is_some_and(|how| how == "require");
            assert!(!required, "{error}");
        }
        Err(error) => panic!("{error}"),
    }
}
