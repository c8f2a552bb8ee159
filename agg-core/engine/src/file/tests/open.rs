//! Opening, closing, deleting.

use super::*;

#[test]
fn ranks_that_disagree_about_the_mode_all_hear_not_same_and_create_nothing() {
    let scratch = Scratch::new();
    let name = scratch.name();
    let results = ranks(3, move |transport| {
        let mode = if transport.rank() == 2 { Amode::RDWR } else { CREATE };
        class(open(&transport, &name, mode))
    });
    assert_eq!(results, [ErrorClass::NotSame; 3]);
    assert!(!scratch.0.exists());
}

#[test]
fn an_illegal_mode_on_one_rank_is_an_error_on_all() {
    let scratch = Scratch::new();
    let name = scratch.name();
    let results = ranks(3, move |transport| {
        let mode = if transport.rank() == 1 { Amode(0) } else { CREATE };
        let error = open(&transport, &name, mode).expect_err("an error");
        (error.class(), error.rank())
    });
    assert_eq!(results, [(ErrorClass::Amode, Some(1)); 3]);
    assert!(!scratch.0.exists());
}

#[test]
fn an_exclusive_create_of_an_existing_file_fails_on_all_ranks_and_leaves_it() {
    let scratch = Scratch::holding(b"old");
    let name = scratch.name();
    let mode = CREATE.with(Amode::EXCL);
    let results = ranks(4, move |transport| class(open(&transport, &name, mode)));
    assert_eq!(results, [ErrorClass::FileExists; 4]);
    assert_eq!(scratch.bytes(), b"old");
}

#[test]
fn an_exclusive_create_of_a_new_file_succeeds_on_all_ranks() {
    let scratch = Scratch::new();
    on_file(4, scratch.name(), CREATE.with(Amode::EXCL), |_| ());
    assert_eq!(scratch.bytes(), b"");
}

#[test]
fn a_missing_file_is_no_such_file_on_all_ranks_and_the_message_names_it() {
    let scratch = Scratch::new();
    let name = scratch.name();
    let results =
        ranks(2, move |transport| open(&transport, &name, Amode::RDONLY).expect_err("an error"));
    for error in results {
        assert_eq!(error.class(), ErrorClass::NoSuchFile);
        let text = error.to_string();
        assert!(text.contains("MPI_File_open") && text.contains(&scratch.name()), "{text}");
    }
}

#[test]
fn a_rank_that_cannot_open_the_file_fails_the_open_on_all() {
    for culprit in 0..3 {
        let scratch = Scratch::holding(b"x");
        let plan = format!("op=open,rank={culprit},errno=EACCES");
        let _plan = aggio_store::driver::fault::arrange(&scratch.name(), &plan).expect("a plan");
        let name = format!("testfs:{}", scratch.name());
        let results = ranks(3, move |transport| {
            let error = open(&transport, &name, Amode::RDWR).expect_err("an error");
            (error.class(), error.rank())
        });
        assert_eq!(results, [(ErrorClass::Access, Some(culprit)); 3]);
    }
}

#[test]
fn appending_starts_every_pointer_at_the_end_of_the_file() {
    let scratch = Scratch::holding(b"12345");
    on_file(3, scratch.name(), Amode::RDWR.with(Amode::APPEND), |rank| {
        assert_eq!(rank.file.position(), Ok(5));
        assert_eq!(rank.file.position_shared(), Ok(5));
        rank.barrier();
        assert_eq!(moved(rank.write_all(Position::Ordered, &[rank.number as u8])), 1);
    });
    assert_eq!(scratch.bytes(), b"12345\0\x01\x02");
}

#[test]
fn a_file_deleted_on_close_is_there_until_all_ranks_close_it() {
    let scratch = Scratch::new();
    let path = scratch.0.clone();
    on_file(3, scratch.name(), CREATE.with(Amode::DELETE_ON_CLOSE), move |_| {
        assert!(path.exists());
    });
    assert!(!scratch.0.exists());
}

#[test]
fn a_failing_close_is_told_to_all_ranks_and_closes_the_file() {
    let scratch = Scratch::holding(b"x");
    let _plan =
        aggio_store::driver::fault::arrange(&scratch.name(), "op=close,rank=1,errno=EDQUOT")
            .expect("a plan");
    let name = format!("testfs:{}", scratch.name());
    let results = ranks(3, move |transport| {
        let file = open(&transport, &name, Amode::RDWR).expect("the file opens");
        let error = wait(&*transport, file.clone().close()).expect_err("an error");
        let again = wait(&*transport, file.close());
        (error.class(), error.rank(), class(again))
    });
    assert_eq!(results, [(ErrorClass::Quota, Some(1), ErrorClass::File); 3]);
}

#[test]
fn a_closed_file_refuses_everything() {
    let scratch = Scratch::holding(b"x");
    let name = scratch.name();
    ranks(2, move |transport| {
        let file = open(&transport, &name, Amode::RDWR).expect("the file opens");
        wait(&*transport, file.clone().close()).expect("the file closes");
        let rank = Rank { number: transport.rank(), file };
        assert_eq!(failed(rank.write(Position::Explicit(0), b"y")).class(), ErrorClass::File);
        assert_eq!(failed(rank.write_all(Position::Individual, b"y")).class(), ErrorClass::File);
        assert_eq!(class(rank.file.size()), ErrorClass::File);
        assert_eq!(class(rank.file.position()), ErrorClass::File);
        assert_eq!(class(rank.wait(rank.file.sync())), ErrorClass::File);
        assert_eq!(class(rank.set_view(Ok(View::bytes()))), ErrorClass::File);
    });
    assert_eq!(scratch.bytes(), b"x");
}

#[test]
fn an_abandoned_file_is_closed_without_the_other_ranks() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(2, move |transport| {
        let file = open(&transport, &name, CREATE).expect("the file opens");
        let rank = Rank { number: transport.rank(), file };
        if rank.number == 1 {
            assert_eq!(moved(rank.write(Position::Explicit(0), b"kept")), 4);
            rank.file.abandon().expect("the close succeeds");
            assert_eq!(class(rank.file.size()), ErrorClass::File);
        }
    });
    assert_eq!(scratch.bytes(), b"kept");
}

#[test]
fn deleting_a_file_removes_it_once() {
    let scratch = Scratch::holding(b"x");
    let name = format!("ufs:{}", scratch.name());
    assert_eq!(engine().delete(&name), Ok(()));
    assert!(!scratch.0.exists());
    assert_eq!(class(engine().delete(&name)), ErrorClass::NoSuchFile);
}

#[test]
fn hints_that_must_be_equal_are_those_of_rank_0() {
    let scratch = Scratch::new();
    let name = scratch.name();
    ranks(3, move |transport| {
        let size = if transport.rank() == 0 { "4096" } else { "8192" };
        let request = OpenRequest::new(&name, CREATE, hints(&[("cb_buffer_size", size)]));
        let file = wait(&*transport, engine().open(transport.clone(), request)).expect("it opens");
        assert_eq!(file.hints().cb_buffer_size, 4096);
        let info = [("cb_buffer_size".to_owned(), (512 << transport.rank()).to_string())];
        let set = file.set_info(&info, &mut Diagnostics::default());
        wait(&*transport, set).expect("all ranks meet");
        let told = file.info();
        let told = told.iter().find(|hint| hint.name == "cb_buffer_size").expect("it is told");
        assert_eq!(told.value, "512");
        let told = file.info();
        let window = told.iter().find(|hint| hint.name == "aggio_window_size");
        assert_eq!(window.expect("the ranks share memory").value, "512");
        wait(&*transport, file.close()).expect("it closes");
    });
}

#[test]
fn the_file_tells_its_driver_and_aggregators() {
    let scratch = Scratch::new();
    let told = on_file(5, scratch.name(), CREATE, |rank| {
        let told = rank.file.info();
        let value =
            |name: &str| told.iter().find(|hint| hint.name == name).map(|h| h.value.clone());
        (value("romio_filesystem_type"), value("romio_aggregator_list"), value("cb_nodes"))
    });
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(told[0], (text("posix"), text("0 1 3"), text("3")));
    assert_eq!(told[0], told[1]);
}

#[test]
fn more_files_than_a_transport_has_lanes_find_room_on_further_ones() {
    let (files, scratch) = (aggio_comm::lanes::COUNT as usize + 10, Scratch::new());
    let name = scratch.name();
    let homes = ranks(2, move |transport| {
        let own = Arc::as_ptr(&transport).cast::<()>();
        let open = |_| open(&transport, &name, CREATE).expect("the file opens");
        let mut open_files: Vec<Arc<File>> = (0..files).map(open).collect();
        for (n, file) in open_files.iter().enumerate() {
            let rank = Rank { number: transport.rank(), file: file.clone() };
            assert_eq!(rank.file.position_shared(), Ok(0), "file {n}");
            rank.barrier();
            assert_eq!(moved(rank.write_all(Position::Ordered, &[n as u8; 3])), 3);
        }
        let elsewhere = |file: &&Arc<File>| Arc::as_ptr(file.transport()).cast::<()>() != own;
        let first = open_files.iter().filter(elsewhere).count();
        // Lanes are used again: nothing else is made.
        for round in 0..20 {
            let file = open_files.swap_remove(round * 7 % open_files.len());
            wait(&*transport, file.close()).expect("the file closes");
            open_files.push(open(round));
        }
        let second = open_files.iter().filter(elsewhere).count();
        assert!(transport.next().is_some_and(|next| next.next().is_none()));
        for file in open_files {
            wait(&*transport, file.close()).expect("the file closes");
        }
        (first, second)
    });
    assert_eq!(homes[0], (11, 11));
    assert_eq!(homes[0], homes[1]);
    assert_eq!(scratch.bytes().len(), 6);
}

#[test]
fn two_threads_of_each_rank_use_two_files_in_any_order() {
    let scratch = [Scratch::new(), Scratch::new()];
    let names = scratch.each_ref().map(Scratch::name);
    ranks(3, move |transport| {
        let files = names.each_ref().map(|name| open(&transport, name, CREATE).expect("it opens"));
        std::thread::scope(|scope| {
            for (n, file) in files.into_iter().enumerate() {
                let transport = &transport;
                scope.spawn(move || {
                    let rank = Rank { number: transport.rank(), file };
                    for round in 0..40u8 {
                        // Ranks are at different files at different times.
                        if usize::from(round) % 3 == (rank.number + n) % 3 {
                            std::thread::sleep(Duration::from_micros(200));
                        }
                        assert_eq!(moved(rank.write_all(Position::Ordered, &[round; 5])), 5);
                    }
                    wait(&**transport, rank.file.clone().close()).expect("the file closes");
                });
            }
        });
    });
    for scratch in scratch {
        let expected: Vec<u8> = (0..40).flat_map(|round| [round; 15]).collect();
        assert_eq!(scratch.bytes(), expected);
    }
}

/// The hints about stripes reported for a file that one rank makes under the `plan` of the test
/// driver.
fn stripes_told(plan: &str, asked: &[(&str, &str)]) -> Vec<String> {
    let scratch = Scratch::new();
    let _plan = aggio_store::driver::fault::arrange(&scratch.name(), plan).expect("a plan");
    let name = format!("testfs:{}", scratch.name());
    let asked: Vec<(String, String)> =
        asked.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let told = ranks(1, move |transport| {
        let asked: Vec<(&str, &str)> = asked.iter().map(|(n, v)| (&**n, &**v)).collect();
        let request = OpenRequest::new(&name, CREATE, hints(&asked));
        let file = wait(&*transport, engine().open(transport.clone(), request)).expect("it opens");
        let told = file.info().into_iter();
        let told =
            told.filter(|hint| hint.name.starts_with("strip") || hint.name.starts_with("start"));
        let told = told.map(|hint| format!("{}={}", hint.name, hint.value)).collect::<Vec<_>>();
        wait(&*transport, file.close()).expect("it closes");
        told
    });
    told.into_iter().next().expect("one rank")
}

#[test]
fn stripes_are_told_as_the_new_file_has_them() {
    let asked = [("striping_unit", "4M"), ("striping_factor", "8"), ("start_iodevice", "3")];
    let told = stripes_told("fs=lustre", &asked);
    assert_eq!(told, ["striping_unit=4194304", "striping_factor=8", "start_iodevice=3"]);
}

#[test]
fn stripes_that_the_file_system_refuses_or_has_not_are_not_told_as_being_in_force() {
    let asked = [("striping_unit", "4M"), ("striping_factor", "8"), ("start_iodevice", "3")];
    // Windows and file domains follow the unit all the same.
    let unit = ["striping_unit=4194304"];
    assert_eq!(stripes_told("fs=lustre;op=stripe,errno=EINVAL", &asked), unit);
    assert_eq!(stripes_told("op=stripe,errno=EINVAL", &asked), unit, "no Lustre");
    assert_eq!(stripes_told("fs=lustre", &[]), [""; 0]);
}
