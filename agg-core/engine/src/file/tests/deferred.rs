//! Ranks that do not open the file until they need it.

use super::*;
use aggio_comm::transport::threads::testing::run_on;
use aggio_store::driver::fault::{Arrangement, arrange};

/// A file of the test driver with operations that fail as in `plan`; ranks open it late.
struct Late {
    scratch: Scratch,
    _plan: Arrangement,
}

impl Late {
    fn new(plan: &str) -> Self {
        let scratch = Scratch::holding(b"0123456789");
        let plan = arrange(&scratch.name(), plan).expect("a plan");
        Self { scratch, _plan: plan }
    }

    /// Opens the file on a rank of each name's host, runs `body`, and closes it.
    fn on<T: Send + 'static>(
        &self,
        hosts: &str,
        info: &[(&str, &str)],
        amode: Amode,
        body: impl Fn(&Rank) -> T + Send + Sync + Clone + 'static,
    ) -> Vec<Result<T>> {
        let hosts = hosts.split(' ').map(String::from).collect();
        let name = format!("testfs:{}", self.scratch.name());
        let hints = hints(&[&[("aggio_tune", "deferred_open=enable")], info].concat());
        let request = OpenRequest::new(name, amode, hints);
        run_on(ThreadTransport::group_on(hosts), move |transport| {
            let (request, body) = (request.clone(), body.clone());
            Box::pin(async move {
                let number = transport.rank();
                let rank = Rank { number, file: engine().open(transport, request).await? };
                let value = body(&rank);
                rank.file.clone().close().await?;
                Ok(value)
            })
        })
    }

    /// As [`Late::on`] for three ranks of one host that all succeed.
    fn on_three<T: Send + 'static>(
        &self,
        body: impl Fn(&Rank) -> T + Send + Sync + Clone + 'static,
    ) -> Vec<T> {
        let all = self.on("a a a", &[], Amode::RDWR, body);
        all.into_iter().map(|value| value.expect("the file opens")).collect()
    }
}

fn error_of(rank: &Rank, offset: i64) -> Option<ErrorClass> {
    rank.read(Position::Explicit(offset), 1).1.result.err().map(|error| error.class())
}

/// Bytes of a rank in a call of all aggregators.
const LEN: usize = 64 << 10;

/// Opens by name would fail everywhere but on rank 0.
const ONLY_RANK_0: &str = "op=open,rank=1,errno=EACCES;op=open,rank=2,errno=EACCES";

#[test]
fn one_rank_of_a_node_opens_the_file_and_the_others_take_its_descriptor() {
    let late = Late::new(ONLY_RANK_0);
    late.on_three(|rank| {
        let byte = [b'a' + rank.number as u8];
        assert_eq!(moved(rank.write_all(Position::Explicit(rank.number as i64), &byte)), 1);
        assert_eq!(rank.wait(rank.file.sync()), Ok(()));
        let (bytes, outcome) = rank.read(Position::Explicit(0), 20);
        assert_eq!((moved(outcome), &bytes[3..10]), (10, b"3456789".as_slice()));
        assert_eq!(rank.file.size(), Ok(10));
        rank.barrier();
        assert_eq!(moved(rank.write(Position::Explicit(5 + rank.number as i64), &byte)), 1);
    });
    assert_eq!(late.scratch.bytes(), b"abc34abc89");
}

#[test]
fn the_first_access_finds_a_file_that_has_lost_its_name() {
    for rename in [false, true] {
        let late = Late::new("");
        let elsewhere = Scratch::new();
        let (path, to) = (late.scratch.0.clone(), elsewhere.0.clone());
        late.on_three(move |rank| {
            if rank.number == 0 {
                let gone =
                    if rename { std::fs::rename(&path, &to) } else { std::fs::remove_file(&path) };
                gone.expect("the name is ours");
                std::fs::write(&path, b"another").expect("the name is free");
            }
            rank.barrier();
            assert_eq!(rank.file.size(), Ok(10));
            assert_eq!(rank.read(Position::Explicit(7), 9).0[..3], *b"789");
            rank.barrier();
            assert_eq!(moved(rank.write(Position::Explicit(rank.number as i64), b"x")), 1);
        });
        assert_eq!(late.scratch.bytes(), b"another");
        if rename {
            assert_eq!(elsewhere.bytes(), b"xxx3456789");
        }
    }
}

#[test]
fn where_descriptors_cannot_be_taken_the_name_leads_to_the_file() {
    let late = Late::new("op=fetch,errno=EPERM");
    let read = late.on_three(|rank| rank.read(Position::Explicit(8), 5).0[..2].to_vec());
    assert_eq!(read, [b"89", b"89", b"89"]);
}

#[test]
fn a_name_that_leads_to_another_file_is_refused() {
    let late = Late::new("op=fetch,errno=EPERM");
    let path = late.scratch.0.clone();
    let classes = late.on_three(move |rank| {
        if rank.number == 0 {
            // Renamed over, so that the old file's number is in use all the time.
            let other = path.with_extension("other");
            std::fs::write(&other, b"another one").expect("the folder can be written");
            std::fs::rename(&other, &path).expect("the name is ours");
        }
        rank.barrier();
        let written = rank.write(Position::Explicit(0), b"y").result.map_err(|e| e.class());
        (written, rank.file.size().map_err(|e| e.class()))
    });
    let refused = (Err(ErrorClass::NoSuchFile), Err(ErrorClass::NoSuchFile));
    assert_eq!(classes, [(Ok(()), Ok(10)), refused, refused]);
    assert_eq!(late.scratch.bytes(), b"another one");
}

#[test]
fn a_rank_that_cannot_get_the_file_fails_alone_and_later_calls_work() {
    let late = Late::new("op=fetch,rank=1,nth=1,errno=EIO;op=open,rank=1,nth=1,errno=EMFILE");
    let seen = late.on_three(|rank| {
        let first = error_of(rank, 0);
        let all = rank.read_all(Position::Explicit(2), 2).1.result.err().map(|e| e.class());
        (first, error_of(rank, 0), all)
    });
    assert_eq!(seen, [(None, None, None), (Some(ErrorClass::Io), None, None), (None, None, None)]);
}

#[test]
fn a_rank_that_cannot_get_the_file_leaves_collective_work_to_others() {
    let late = Late::new("op=fetch,rank=1,errno=EIO;op=open,rank=1,errno=EMFILE");
    let info = [("romio_cb_write", "enable"), ("romio_cb_read", "enable")];
    let all = late.on("a a a", &info, Amode::RDWR, |rank| {
        let (mine, data) = (Position::Explicit((LEN * rank.number) as i64), vec![b'z'; LEN]);
        (moved(rank.write_all(mine, &data)), rank.read_all(mine, LEN).0 == data)
    });
    assert_eq!(all, vec![Ok((LEN as u64, true)); 3]);
    assert_eq!(late.scratch.bytes(), vec![b'z'; 3 * LEN]);
}

#[test]
fn an_aggregator_that_cannot_get_the_file_fails_the_call_on_all_ranks() {
    let late = Late::new("op=fetch,rank=1,nth=1,errno=EIO;op=open,rank=1,nth=1,errno=EIO");
    let info = [("cb_config_list", "*:*"), ("romio_cb_write", "enable")];
    let all = late.on("a a a", &info, Amode::RDWR, |rank| {
        let (mine, data) = (Position::Explicit((LEN * rank.number) as i64), vec![b'z'; LEN]);
        let failed = rank.write_all(mine, &data).result.map_err(|error| error.class());
        (failed, moved(rank.write_all(mine, &data)))
    });
    assert_eq!(all, vec![Ok((Err(ErrorClass::Io), LEN as u64)); 3]);
    assert_eq!(late.scratch.bytes(), vec![b'z'; 3 * LEN]);
}

#[test]
fn the_opener_of_another_node_fails_the_open_on_all_and_other_ranks_do_not() {
    let (denied, error) = ("op=open,rank=2,errno=EACCES", Some(Some(2)));
    let rank_of = |result: &Result<()>| result.as_ref().err().map(Error::rank);
    for (plan, expected) in [(denied, error), ("op=open,rank=3,errno=EACCES", None)] {
        let late = Late::new(plan);
        let all = late.on("a a b b", &[], Amode::RDWR, |_| ());
        assert_eq!(all.iter().map(rank_of).collect::<Vec<_>>(), [expected; 4], "{plan}");
    }
    let late = Late::new("op=open,rank=0,errno=EACCES");
    let all = late.on("a a b b", &[], CREATE, |_| ());
    assert_eq!(all.iter().map(rank_of).collect::<Vec<_>>(), [Some(Some(0)); 4]);
}

#[test]
fn a_node_that_does_not_see_the_file_takes_part_without_an_aggregator() {
    let late = Late::new("op=open,rank=2,errno=ENOENT;op=open,rank=3,errno=ENOENT");
    let all = late.on("a a b b", &[], Amode::RDWR, |rank| {
        let aggregators = rank.file.info();
        let list = aggregators.iter().find(|hint| hint.name == "romio_aggregator_list");
        let mine = [b'a' + rank.number as u8; 2];
        // In file order and without gaps: each rank would write for itself if it could.
        assert_eq!(moved(rank.write_all(Position::Explicit(2 * rank.number as i64), &mine)), 2);
        let read = rank.read_all(Position::Explicit(0), 9).0;
        (list.map(|hint| hint.value.clone()), read, error_of(rank, 0))
    });
    for (rank, seen) in all.into_iter().enumerate() {
        let error = (rank > 1).then_some(ErrorClass::NoSuchFile);
        assert_eq!(seen, Ok((Some("0".to_owned()), b"aabbccdd8".to_vec(), error)), "rank {rank}");
    }
    let named = late.on("a a b b", &[("cb_config_list", "*:1")], Amode::RDWR, |_| ());
    let told = |error: Error| (error.class(), error.rank());
    let missing = Err((ErrorClass::NoSuchFile, Some(2)));
    assert_eq!(named.into_iter().map(|it| it.map_err(told)).collect::<Vec<_>>(), vec![missing; 4]);
}

#[test]
fn another_rank_leads_where_rank_0_does_not_see_the_file() {
    let blind = "op=open,rank=0,errno=ENOENT;op=open,rank=1,errno=ENOENT";
    for info in [&[][..], &[("cb_config_list", "b")]] {
        let late = Late::new(blind);
        std::fs::write(&late.scratch.0, b"12345").expect("the file can be written");
        let mode = CREATE.with(Amode::APPEND);
        let all = late.on("a a b b", info, mode, |rank| {
            assert_eq!(rank.file.position_shared(), Ok(5));
            let mine = [b'a' + rank.number as u8];
            assert_eq!(moved(rank.write_all(Position::Ordered, &mine)), 1);
            assert_eq!(rank.wait(rank.file.seek_shared(-1, Whence::End)), Ok(()));
            assert_eq!(rank.file.position_shared(), Ok(8));
            assert_eq!(rank.wait(rank.file.set_size(12)), Ok(()));
            error_of(rank, 0)
        });
        let missing = Some(ErrorClass::NoSuchFile);
        assert_eq!(all, [Ok(missing), Ok(missing), Ok(None), Ok(None)]);
        assert_eq!(late.scratch.bytes(), b"12345abcd\0\0\0");
        let mode = Amode::RDWR.with(Amode::DELETE_ON_CLOSE);
        assert!(late.on("a a b b", info, mode, |_| ()).into_iter().all(|it| it.is_ok()));
        assert!(!late.scratch.0.exists());
        let all = late.on("a a b b", info, Amode::RDWR, |_| ());
        assert!(all.into_iter().all(|it| class(it) == ErrorClass::NoSuchFile));
        let all = late.on("a a b b", info, CREATE.with(Amode::EXCL), |_| ());
        assert_eq!(all, vec![Ok(()); 4]);
        let all = late.on("a a b b", info, CREATE.with(Amode::EXCL), |_| ());
        assert!(all.into_iter().all(|it| class(it) == ErrorClass::FileExists));
    }
}

#[test]
fn a_rank_may_still_take_the_file_while_its_opener_waits_in_the_close() {
    let late = Late::new(ONLY_RANK_0);
    late.on_three(|rank| {
        if rank.number != 0 {
            // Rank 0 has no more to do and goes on to close the file.
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(rank.file.size(), Ok(10));
        }
    });
}

#[test]
fn nobody_opens_late_if_a_hint_says_so() {
    let late = Late::new(ONLY_RANK_0);
    let info = [("aggio_tune", "deferred_open=disable")];
    let all = late.on("a a a", &info, Amode::RDWR, |_| ());
    assert!(all.into_iter().all(|it| class(it) == ErrorClass::Access));
}

/// A container, and the folder that it is in.
fn container() -> (aggio_store::driver::scratch::Scratch, String) {
    let folder = aggio_store::driver::scratch::Scratch::new();
    let path = folder.file("x.blob");
    (folder, path)
}

/// The contents of a container.
fn held(path: &str) -> Vec<u8> {
    let mut bytes = vec![0; 100];
    let container = aggio_container::blob::Container::open(path.as_ref()).expect("a container");
    let len = container.reader().expect("it can be read").read_at(&mut bytes, 0);
    bytes.truncate(len.expect("it can be read"));
    bytes
}

#[test]
fn the_first_access_finds_a_container_whatever_has_its_name_by_then() {
    let (folder, path) = container();
    let (moved_to, name) = (folder.file("y.blob"), path.clone());
    let to = moved_to.clone();
    ranks(3, move |transport| {
        let file = open(&transport, &name, CREATE).expect("it opens");
        let rank = Rank { number: transport.rank(), file };
        if rank.number == 0 {
            aggio_container::blob::rename(name.as_ref(), to.as_ref()).expect("the name is ours");
            let other = open_alone(&name);
            assert_eq!(moved(other.write(Position::Explicit(0), b"another")), 7);
            rank.wait(other.file.clone().close()).expect("it closes");
        }
        rank.barrier();
        let mine = [b'a' + rank.number as u8];
        assert_eq!(moved(rank.write(Position::Explicit(rank.number as i64), &mine)), 1);
        rank.barrier();
        assert_eq!(rank.read(Position::Explicit(0), 9).0[..3], *b"abc");
        rank.wait(rank.file.clone().close()).expect("it closes");
    });
    assert_eq!((held(&path), held(&moved_to)), (b"another".to_vec(), b"abc".to_vec()));
}

/// A rank of its own with the file that is made under this name.
fn open_alone(name: &str) -> Rank {
    let transport = ThreadTransport::group(1).remove(0);
    let file = open(&transport, name, CREATE).expect("it opens");
    Rank { number: 0, file }
}

#[test]
fn the_first_access_finds_a_container_that_has_been_removed() {
    let (folder, path) = container();
    let name = path.clone();
    ranks(3, move |transport| {
        let file = open(&transport, &name, CREATE).expect("it opens");
        let rank = Rank { number: transport.rank(), file };
        if rank.number == 0 {
            assert_eq!(moved(rank.write(Position::Explicit(3), b"z")), 1);
            aggio_container::blob::remove(name.as_ref()).expect("the name is ours");
        }
        rank.barrier();
        let mine = [b'a' + rank.number as u8];
        assert_eq!(moved(rank.write(Position::Explicit(rank.number as i64), &mine)), 1);
        rank.barrier();
        assert_eq!(rank.read(Position::Explicit(0), 9).0[..4], *b"abcz");
        rank.barrier();
        rank.wait(rank.file.clone().close()).expect("it closes");
    });
    let left = std::fs::read_dir(folder.file("")).expect("the folder is there").count();
    assert_eq!(left, 0);
}

#[test]
fn a_link_leads_to_a_container_as_to_a_file() {
    let (folder, path) = container();
    let link = folder.file("link.blob");
    let first = open_alone(&path);
    assert_eq!(moved(first.write(Position::Explicit(0), b"bytes")), 5);
    first.wait(first.file.clone().close()).expect("it closes");
    std::os::unix::fs::symlink("x.blob", &link).expect("the folder can be written");
    let second = open_alone(&link);
    assert_eq!(second.read(Position::Explicit(0), 9).0[..5], *b"bytes");
    assert_eq!(moved(second.write(Position::Explicit(5), b"!")), 1);
    second.wait(second.file.clone().close()).expect("it closes");
    assert_eq!(held(&path), b"bytes!");
}
