//! Messages arrive as they were sent; other bytes are refused and harm nobody.

use super::*;
use crate::client::Stat;
use crate::seeds;
use aggio_config::settings::couple::{Full, Persist, Pick, WriterDeath};
use proptest::prelude::*;
use std::io::{Read, Seek, Write};

fn path() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..300)
}

fn options() -> impl Strategy<Value = Options> {
    let spill = prop::option::of("/[a-z/]{0,40}");
    let numbers = (0..3usize, 0..3usize, any::<u32>(), any::<u64>(), spill);
    (any::<[bool; 6]>(), numbers).prop_map(|(switches, numbers)| {
        let [latest, at_sync, at_step, now, drops, survives] = switches;
        let (death, persist, keep, budget, spill) = numbers;
        Options {
            pick: if latest { Pick::Latest } else { Pick::Next },
            keep,
            death: [WriterDeath::Error, WriterDeath::Wait, WriterDeath::File][death],
            at_sync,
            at_step,
            records_now: now,
            persist: [Persist::No, Persist::Yes, Persist::After][persist],
            budget,
            full: if drops { Full::Drop } else { Full::Wait },
            spill: spill.map(Into::into),
            survives,
        }
    })
}

fn ask() -> impl Strategy<Value = Ask> {
    (path(), any::<[bool; 5]>(), any::<u64>(), options()).prop_map(|(path, how, key, options)| {
        let [write, create, exclusive, truncate, view] = how;
        Ask { path, write, create, exclusive, truncate, view, key, tells: false, options }
    })
}

fn extents() -> impl Strategy<Value = Vec<Extent>> {
    let extent = any::<(u64, u64)>().prop_map(|(offset, len)| Extent::new(offset, len));
    prop::collection::vec(extent, 0..4)
}

fn request() -> impl Strategy<Value = Request> {
    let hello = (".*", any::<u32>(), any::<u32>(), ".*").prop_map(|(job, ranks, rank, command)| {
        let spools = (0..rank % 3).map(|number| format!("/{command}/{number}").into()).collect();
        Request::Hello { job, ranks, rank, command, spools }
    });
    let open = (ask(), any::<[bool; 4]>(), any::<u32>()).prop_map(|(ask, how, mode)| {
        let [read, append, blocking, parts] = how;
        Request::Open { ask, read, append, blocking, parts, mode }
    });
    prop_oneof![
        hello,
        open,
        any::<(u64, u64, [bool; 2], u64)>()
            .prop_map(|(one, other, how, key)| Request::Adopt(one, other, how, key)),
        any::<(u64, u64)>().prop_map(|(handle, moved)| Request::Close(handle, moved)),
        any::<u64>().prop_map(Request::Sync),
        path().prop_map(Request::Empty),
        (path(), options()).prop_map(|(path, options)| Request::Unlink(path, options)),
        (path(), path(), options()).prop_map(|(from, to, of)| Request::Rename(from, to, of)),
        (path(), options()).prop_map(|(path, options)| Request::Stat(path, options)),
        (path(), path(), any::<bool>())
            .prop_map(|(dir, after, view)| Request::List(dir, after, view)),
        Just(Request::Goodbye),
        any::<u64>().prop_map(Request::Status),
        path().prop_map(Request::Drop),
        Just(Request::Quit),
        any::<(u64, u64)>().prop_map(|(handle, moved)| Request::Check(handle, moved)),
        any::<u64>().prop_map(Request::Withdraw),
        any::<u64>().prop_map(Request::Spoil),
        any::<u64>().prop_map(Request::Renew),
        any::<u64>().prop_map(Request::ChildLost),
        (any::<u64>(), extents()).prop_map(|(handle, extents)| Request::Wrote(handle, extents)),
        (any::<u64>(), extents(), any::<u64>())
            .prop_map(|(handle, extents, ahead)| Request::Fetch(handle, extents, ahead)),
        (any::<u64>(), any::<u64>()).prop_map(|(handle, size)| Request::Resize(handle, size)),
        any::<(u64, u64)>().prop_map(|(handle, told)| Request::Records(handle, told)),
        any::<(u64, u64)>().prop_map(|(handle, end)| Request::Reach(handle, end)),
        (any::<u64>(), 0..3usize).prop_map(|(handle, before)| {
            Request::Announce(handle, [Before::Others, Before::Variable, Before::All][before])
        }),
        Just(Request::Cancel),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let stat = any::<([u64; 6], u32, i64, i64)>().prop_map(|(numbers, mode, seconds, nanos)| {
        let [device, inode, size, blocks, generation, area] = numbers;
        let modified = (seconds, nanos);
        Reply::Stat(Some(Stat { device, inode, mode, size, blocks, modified, generation, area }))
    });
    prop_oneof![
        Just(Reply::Done),
        (0..i32::MAX, ".*").prop_map(|(number, text)| Reply::Failed(number, text)),
        any::<(u64, u64)>().prop_map(|(handle, number)| Reply::Opened(handle, number)),
        ".*".prop_map(Reply::OnDisk),
        ".*".prop_map(Reply::Waits),
        Just(Reply::Stat(None)),
        stat,
        (proptest::collection::vec(path(), 0..5), any::<bool>())
            .prop_map(|(names, more)| Reply::Names(names, more)),
        (path(), any::<u64>()).prop_map(|(part, total)| Reply::Text(part, total)),
        any::<u64>().prop_map(Reply::Until),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn requests_arrive_as_they_were_sent(request in request()) {
        prop_assert_eq!(Request::decode(&request.encode()).unwrap(), request);
    }

    #[test]
    fn replies_arrive_as_they_were_sent(reply in reply()) {
        prop_assert_eq!(Reply::decode(&reply.encode()).unwrap(), reply);
    }

    #[test]
    fn a_changed_message_is_another_one_or_is_refused(
        request in request(), reply in reply(), at in any::<prop::sample::Index>(), byte: u8,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut message = request.encode();
        let at_request = at.index(message.len());
        message[at_request] = byte;
        if let Ok(read) = Request::decode(&message) {
            prop_assert_eq!(read.encode(), message);
        }
        let message = request.encode();
        prop_assert!(Request::decode(&message[..cut.index(message.len())]).is_err());
        let mut message = reply.encode();
        let at_reply = at.index(message.len());
        message[at_reply] = byte;
        let _ = Reply::decode(&message);
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut message = BEGINNING.to_vec();
        message.extend(&bytes);
        let _ = (Request::decode(&message), Reply::decode(&message));
        let _ = (Request::decode(&bytes), Reply::decode(&bytes));
    }
}

#[test]
fn seeds_of_the_fuzzer_are_of_this_version() {
    let examples = || {
        let kind = BEGINNING.len();
        let requests = seeds::some(request(), |request| request.encode(), kind, 2);
        let replies = seeds::some(reply(), |reply| reply.encode(), kind, 2);
        [requests, replies].concat()
    };
    let is_read = |bytes: &[u8]| Request::decode(bytes).is_ok() || Reply::decode(bytes).is_ok();
    seeds::are_read("requests", examples, is_read);
}

#[test]
fn another_version_is_named() {
    let mut message = Request::Goodbye.encode();
    message[3] += 1;
    let text = Request::decode(&message).unwrap_err().to_string();
    assert!(text.contains("another version"), "{text}");
}

#[test]
fn a_descriptor_arrives_with_its_packet() {
    let (one, other) = pair().unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"hello").unwrap();
    one.send(b"take it", Some(std::os::fd::AsRawFd::as_raw_fd(&file)), true).unwrap();
    let (message, fd) = other.receive(true).unwrap().unwrap();
    assert_eq!(message, b"take it");
    let mut copy = std::fs::File::from(fd.expect("a descriptor"));
    copy.rewind().unwrap();
    let mut text = String::new();
    copy.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
    assert_eq!(other.peer().unwrap().0, i32::try_from(std::process::id()).unwrap());
}

#[test]
fn the_end_of_a_connection_is_no_message_and_a_long_packet_is_refused() {
    let (one, other) = pair().unwrap();
    let error = other.receive(false).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    one.send(&vec![1; MOST + 1], None, true).unwrap();
    assert_eq!(other.receive(true).unwrap_err().kind(), std::io::ErrorKind::InvalidData);
    drop(one);
    assert!(other.receive(true).unwrap().is_none());
    assert!(other.send(b"x", None, true).is_err());
}
