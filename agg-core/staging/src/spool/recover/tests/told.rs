//! Versions that others set in a slot while its bytes are written.

use super::*;

#[test]
fn what_others_tell_while_the_bytes_of_a_dead_owner_are_written_is_not_forgotten() {
    const ROUNDS: u64 = 30_000;
    let (directory, path) = abandoned_with(&[(0, b"x")]);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let (name, identity) = (spool_in(directory.path()), identity_of(&file));
    let spool = File::options().read(true).write(true).open(&name).unwrap();
    let mut slots = Vec::new();
    each_slot(&spool, &name, &mut |slot| slots.push(slot.clone())).unwrap();
    let (meet, mut forgotten) = (std::sync::Barrier::new(2), 0);
    std::thread::scope(|scope| {
        // Another process with bytes of the file makes it longer all the time.
        scope.spawn(|| {
            let mut others = Others::new(directory.path());
            for round in 0..ROUNDS {
                meet.wait();
                let change = others.begin([identity[0], identity[1]], file.as_raw_fd()).unwrap();
                file.write_all_at(b"y", 10 + round).unwrap();
                others.end(&change, file.as_raw_fd());
                meet.wait();
            }
        });
        let mut others = Others::beside(&name);
        for _ in 0..ROUNDS {
            meet.wait();
            write_as_owner(&spool, &slots[0], &file, &[], &mut others).unwrap();
            meet.wait();
            let mut stamp = [0; 8];
            let at = slots[0].place_of(offset_of!(SlotHead, stamp));
            spool.read_exact_at(&mut stamp, at).unwrap();
            let version = Version::known(file.as_raw_fd());
            forgotten += usize::from(u64::from_ne_bytes(stamp) != version.stamp());
        }
    });
    assert_eq!(forgotten, 0, "of {ROUNDS} changes");
}
