//! Measures a link between two processes: `speed receive WIRE FILE` and `speed send WIRE FILE MIB`.
//!
//! WIRE is `tcp`, `ucx`, or `plain`: one TCP stream of the same bytes without frames and checksums.
//! FILE passes the receiver's address to the sender. The receiver prints MiB/s.

use aggio_base::Extent;
use aggio_base::os::{Mapping, memory_file};
use aggio_link::tcp::{Tcp, own_address};
use aggio_link::ucx::Ucx;
use aggio_link::{Body, Event, Frame, Framed, Limits, Link, Peer, Places, Span, Token};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of the file in memory that is sent and received over and over.
const AREA: u64 = 64 << 20;
const PIECE: u64 = 1 << 20;

fn area() -> io::Result<Arc<Mapping>> {
    let fd = memory_file(c"speed")?;
    // SAFETY: only numbers.
    assert_eq!(unsafe { libc::ftruncate(fd, AREA as i64) }, 0);
    let map = Mapping::new(fd, Extent::new(0, AREA), true)?;
    map.populate(true)?;
    Ok(Arc::new(map))
}

struct Into(Arc<Mapping>);

impl Places for Into {
    fn place(&mut self, _: Peer, head: &[u8], len: u64) -> Option<Span> {
        let offset = u64::from_le_bytes(*head.first_chunk::<8>()?);
        Span::new(Arc::clone(&self.0), Extent::new(offset, len)).ok()
    }
}

fn wait(link: &dyn Link) {
    let mut poll = libc::pollfd { fd: link.descriptor(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel reads and writes the local value.
    unsafe { libc::poll(&raw mut poll, 1, 1000) };
}

fn link(wire: &str) -> io::Result<Box<dyn Link>> {
    let (token, limits) = (Token::from_bytes(&[1; 32]), Limits::default());
    Ok(match wire {
        "ucx" => Box::new(Framed::new(Ucx::listen(own_address())?, token, limits)),
        _ => Box::new(Framed::new(Tcp::listen(own_address())?, token, limits)),
    })
}

fn publish(path: &str, address: &str) -> io::Result<()> {
    std::fs::write(format!("{path}.new"), address)?;
    std::fs::rename(format!("{path}.new"), path)
}

fn told(path: &str) -> String {
    loop {
        match std::fs::read_to_string(path) {
            Ok(address) => return address,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn report(wire: &str, bytes: u64, start: Instant) {
    let rate = bytes as f64 / start.elapsed().as_secs_f64() / f64::from(1 << 20);
    println!("{wire} {rate:.0} MiB/s");
}

fn receive(wire: &str, path: &str) -> io::Result<()> {
    let map = area()?;
    if wire == "plain" {
        let listener = TcpListener::bind((own_address(), 0))?;
        publish(path, &listener.local_addr()?.to_string())?;
        let (mut stream, _) = listener.accept()?;
        // SAFETY: the mapping is of this size and not used elsewhere.
        let bytes = unsafe { std::slice::from_raw_parts_mut(map.place(0), AREA as usize) };
        let (mut start, mut sum, mut at) = (None, 0, 0);
        loop {
            let end = (at + (512 << 10)).min(bytes.len());
            match stream.read(&mut bytes[at..end])? {
                0 => break,
                n => (sum, at) = (sum + n as u64, (at + n) % bytes.len()),
            }
            start.get_or_insert_with(Instant::now);
        }
        report(wire, sum, start.expect("bytes"));
        return Ok(());
    }
    let mut link = link(wire)?;
    publish(path, &link.address())?;
    let (mut places, mut events) = (Into(map), Vec::new());
    let (mut start, mut sum) = (None, 0);
    loop {
        let more = link.progress(&mut places, &mut events)?;
        for event in events.drain(..) {
            match event {
                Event::Message { head, .. } if head.len() == 8 => {
                    start.get_or_insert_with(Instant::now);
                    sum += PIECE;
                }
                Event::Message { .. } | Event::Closed { .. } => {
                    report(wire, sum, start.expect("bytes"));
                    return Ok(());
                }
                _ => {}
            }
        }
        if !more {
            wait(&*link);
        }
    }
}

fn send(wire: &str, path: &str, total: u64) -> io::Result<()> {
    let map = area()?;
    let address = told(path);
    if wire == "plain" {
        let mut stream = TcpStream::connect(address)?;
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(map.place(0), AREA as usize) };
        for at in 0..total / PIECE {
            let offset = (at * PIECE % AREA) as usize;
            stream.write_all(&bytes[offset..offset + PIECE as usize])?;
        }
        return Ok(());
    }
    let mut link = link(wire)?;
    let peer = link.connect(&address)?;
    let (mut next, mut events) = (0, Vec::new());
    loop {
        while next * PIECE < total && link.queued(peer) < 4 << 20 {
            let extent = Extent::new(next * PIECE % AREA, PIECE);
            let body = Body::Mapped(Span::new(Arc::clone(&map), extent)?);
            link.send(peer, Frame { head: extent.offset.to_le_bytes().to_vec(), body })?;
            next += 1;
            if next * PIECE >= total {
                link.send(peer, Frame { head: b"end".to_vec(), body: Body::None })?;
            }
        }
        let more = link.progress(&mut aggio_link::Nowhere, &mut events)?;
        // Drained events make room for more.
        let happened = !events.is_empty();
        if events.drain(..).any(|event| matches!(event, Event::Closed { .. })) {
            return Ok(());
        }
        if !more && !happened {
            wait(&*link);
        }
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[1..] {
        ["receive", wire, path] => receive(wire, path),
        ["send", wire, path, mib] => send(wire, path, mib.parse::<u64>().expect("MiB") << 20),
        _ => Err(io::Error::other("speed receive WIRE FILE | speed send WIRE FILE MIB")),
    }
}
