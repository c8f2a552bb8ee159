//! Plain TCP passes the suite of tests of links.

use aggio_link::conformance;
use aggio_link::tcp::Tcp;
use std::net::{IpAddr, Ipv4Addr};

#[test]
fn tcp_is_a_link() {
    conformance::run(|| Tcp::listen(IpAddr::V4(Ipv4Addr::LOCALHOST)));
}
