//! How many ranks write to the file at a time.

use super::bounds::records;
use super::disk::{Access, Disk};
use super::{Fresh, Request, write};
use aggio_base::error::Result;
use aggio_comm::tags::Tags;
use aggio_comm::transport::Transport;
use aggio_comm::transport::threads::testing::run;
use aggio_config::hints::Hints;
use aggio_store::driver::{Driver, Facts, Outcome};
use aggio_types::datatype::Datatype;
use aggio_types::memory::Memory;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Ranks that are writing, and the most that ever were.
#[derive(Debug, Default)]
struct Writers {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A file of a named file system, with requests slow enough to overlap.
#[derive(Debug)]
struct Watched {
    access: Access,
    writers: Arc<Writers>,
    file_system: &'static str,
}

impl Driver for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }

    fn pread(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.access.pread(buffer, offset)
    }

    fn pwrite(&self, buffer: &[u8], offset: u64) -> io::Result<usize> {
        let now = self.writers.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.writers.most.fetch_max(now, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(2));
        self.writers.now.fetch_sub(1, Ordering::SeqCst);
        self.access.pwrite(buffer, offset)
    }

    fn size(&self) -> Result<u64> {
        self.access.size()
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.access.set_size(size)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }

    fn facts(&self) -> Facts {
        Facts { file_system: self.file_system.into(), ..self.access.facts() }
    }
}

/// The most ranks that wrote at a time when four of them deal out records in turn.
fn most_writers(file_system: &'static str) -> usize {
    let (disk, writers) = (Disk::new(Vec::new()), Arc::<Writers>::default());
    let seen = Arc::clone(&writers);
    let shared = Arc::clone(&disk);
    run(4, move |transport| {
        let (writers, access) = (Arc::clone(&seen), Access::new(&shared));
        Box::pin(async move {
            let driver = Watched { access, writers, file_system };
            let rank = transport.rank();
            let mut hints = Hints::default();
            hints.cb_buffer_size = 4000;
            let mut data = vec![rank as u8; 20_000];
            // SAFETY: `data` outlives the call.
            let memory = unsafe { Memory::new(data.as_mut_ptr(), Datatype::bytes(20_000), 1) };
            let fresh = Fresh::new(&*transport, &driver, &[0], &hints);
            let scene = fresh.scene();
            let view = records(rank as u64, 100, 400);
            let request = Ok(Request { view: &view, position: 0, memory: &memory });
            let tags = Tags::new(transport.max_tag()).next();
            let Outcome { bytes, result } = write(scene, request, &tags).await;
            assert_eq!((bytes, result), (20_000, Ok(())));
        })
    });
    let wanted: Vec<u8> = (0..800).flat_map(|record| [record as u8 % 4; 100]).collect();
    assert!(*disk.bytes() == wanted, "the bytes of the file");
    writers.most.load(Ordering::SeqCst)
}

#[test]
fn where_writes_wait_for_each_other_one_rank_writes_at_a_time() {
    assert_eq!(most_writers("ext4"), 1);
    assert!(most_writers("lustre") > 1);
}
