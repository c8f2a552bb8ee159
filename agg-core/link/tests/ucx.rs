//! UCX, where it is installed, passes the suite of tests of links.

use aggio_link::conformance;
use aggio_link::ucx::{ENVIRONMENT, Ucx};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;

fn listen() -> io::Result<Ucx> {
    Ucx::listen(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// As [`listen`], while standard error is a file, as of a program that keeps its messages: the
/// bytes in it stay.
fn listen_apart() -> io::Result<Ucx> {
    let path = std::env::temp_dir().join(format!("aggio-ucx-{}", std::process::id()));
    std::fs::write(&path, "said before").expect("a file");
    let file = std::fs::File::options().append(true).open(&path).expect("the file");
    // SAFETY: numbers only; both descriptors are open.
    let kept = unsafe { libc::dup(2) };
    // SAFETY: as above.
    unsafe { libc::dup2(file.as_raw_fd(), 2) };
    let link = listen();
    // SAFETY: as above.
    unsafe { (libc::dup2(kept, 2), libc::close(kept)) };
    let text = std::fs::read_to_string(&path).expect("the file");
    std::fs::remove_file(&path).expect("the file");
    assert!(text.starts_with("said before"), "{text}");
    link
}

#[test]
fn ucx_is_a_link() {
    for (name, value) in ENVIRONMENT {
        // SAFETY: the only test of this program, and no other thread reads the environment.
        unsafe { std::env::set_var(name, value) };
    }
    // SAFETY: as above.
    unsafe { std::env::set_var("UCX_TLS", "tcp") };
    match listen_apart() {
        Ok(_) => conformance::run(listen),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            println!("skipped: {error}");
            let required = std::env::var_os("AGGIO_TESTS").is_some_and(|how| how == "require");
            assert!(!required, "{error}");
        }
        Err(error) => panic!("{error}"),
    }
}
