//! A process that writes, as a member of a group.

use super::group::{Group, Making, Way};
use super::model::Expected;
use super::open_file::{How, OpenFile};
use super::program::Program;
use crate::protocol::Request;
use std::rc::Rc;

/// A member of a group, by its number, and whether it uses MPI-IO.
pub(super) struct Writer {
    pub(super) program: Program,
    pub(super) group: Rc<Group>,
    pub(super) who: usize,
    pub(super) mpi: bool,
}

/// A generation that a member has open.
struct Opened {
    file: OpenFile,
    generation: Rc<Expected>,
    /// Changes of the size that it knows.
    cuts: usize,
    appends: bool,
    reads: bool,
}

impl Writer {
    pub(super) async fn run(self) {
        for number in 0..self.group.makings {
            let making = self.group.next(&self.program, self.who, number).await;
            if making.members[self.who] {
                self.make(&making).await;
            }
            self.group.meet(&self.program).await;
            if making.way == Way::Renamed && making.renamer == self.who {
                self.publish(&making).await;
            }
            self.group.meet(&self.program).await;
            if making.looker == Some(self.who) {
                self.look_back(&making).await;
            }
            self.group.meet(&self.program).await;
        }
        self.program.order(Request::Goodbye).await.unwrap();
    }

    fn chance(&self, many: usize) -> bool {
        self.program.chance().once_in(many)
    }

    /// Writes a part of a generation.
    async fn make(&self, making: &Making) {
        let is_creator = making.creator == self.who;
        if !is_creator {
            self.program.until(|| making.generation.borrow().is_some()).await;
            self.program.pause().await;
            if self.chance(4) {
                let mut open = self.join(making).await;
                self.steps(making, &mut open).await;
                self.close(open).await;
            }
        }
        let mut open = match is_creator {
            true => self.begin(making).await,
            false => self.join(making).await,
        };
        if !is_creator {
            making.to_open.set(making.to_open.get() - 1);
        }
        self.steps(making, &mut open).await;
        if is_creator {
            self.program.does("waits until the others have opened the file");
            self.program.until(|| making.to_open.get() == 0).await;
            self.differ_from_source(&mut open).await;
        }
        self.close(open).await;
    }

    /// A copy that is not changed is no generation of its own.
    async fn differ_from_source(&self, open: &mut Opened) {
        let generation = open.generation.clone();
        let Some(source) = &generation.source else { return };
        self.program.does("waits until the others have closed the file");
        self.program.until(|| generation.open.get() == 1 && generation.is_idle()).await;
        if generation.bytes.borrow().all == *source {
            self.sync(open).await;
            self.change_one(open).await;
        }
    }

    fn how(&self, making: &Making) -> How {
        let (path, options) = (making.path.clone(), making.target.options.clone());
        let append = !self.mpi && self.chance(5);
        let read = self.chance(2);
        How {
            path,
            options,
            mpi: self.mpi,
            read,
            write: true,
            append,
            blocking: true,
            ..How::default()
        }
    }

    async fn begin(&self, making: &Making) -> Opened {
        let is_new = making.way != Way::Copy;
        let truncate = is_new && !self.mpi;
        let how = How { create: true, truncate, ..self.how(making) };
        let before = making.file.newest().filter(|_| !truncate && making.way != Way::Renamed);
        let source = before.map(|one| one.bytes.borrow().all.clone());
        let generation = Expected::new(source, self.group.members);
        let number = making.file.add(generation.clone());
        generation.open.set(1);
        assert!(generation.begins(false));
        let file = OpenFile::open(&self.program, &how).await.expect("a generation begins");
        assert_eq!(file.generation, number, "{}: its generation", self.program.name);
        generation.ends();
        making.generation.replace(Some((generation.clone(), number)));
        let mut open = Opened { file, generation, cuts: 0, appends: how.append, reads: how.read };
        if is_new && self.mpi {
            self.resize(&mut open, 0).await;
        }
        open
    }

    async fn join(&self, making: &Making) -> Opened {
        let (generation, number) = making.generation.borrow().clone().unwrap();
        self.program.does("waits until it may open the file");
        self.program.until(|| generation.begins(false)).await;
        generation.open.set(generation.open.get() + 1);
        let (published, cuts) = {
            let bytes = generation.bytes.borrow();
            (bytes.published(), bytes.cuts.len())
        };
        let how = How { create: self.chance(2), ..self.how(making) };
        let file = OpenFile::open(&self.program, &how).await.expect("an open joins");
        assert_eq!(file.generation, number, "{}: its generation", self.program.name);
        generation.bytes.borrow_mut().see(self.who, &published);
        generation.ends();
        Opened { file, generation, cuts, appends: how.append, reads: how.read }
    }

    async fn steps(&self, making: &Making, open: &mut Opened) {
        for _ in 0..making.steps {
            self.program.pause().await;
            match self.program.chance().of(0..10) {
                0 | 1 => self.sync(open).await,
                2 => self.resize_to_any(making, open).await,
                3 if open.reads => self.look(open).await,
                _ if open.appends => self.append(making, open).await,
                _ => self.write(making, open).await,
            }
        }
    }

    /// Begins a call on a file; no other one changes the size meanwhile.
    async fn enter(&self, open: &mut Opened, resizes: bool) {
        self.program.does("waits until nobody changes the size");
        let generation = open.generation.clone();
        self.program.until(|| generation.begins(resizes)).await;
        let bytes = generation.bytes.borrow();
        bytes.cuts[open.cuts..].iter().for_each(|size| open.file.was_resized(*size));
        open.cuts = bytes.cuts.len();
    }

    /// Changes a byte that others have not changed.
    async fn change_one(&self, open: &mut Opened) {
        self.enter(open, false).await;
        let byte = open.generation.bytes.borrow().all.first().map_or(1, |first| !first);
        if open.appends {
            let end = open.generation.bytes.borrow().all.len();
            open.file.append(&[byte]);
            open.generation.bytes.borrow_mut().write(self.who, end, &[byte]);
        } else {
            open.file.before_write(&self.program, 0, 1).await.unwrap();
            self.put(open, 0, &[byte]);
        }
        open.generation.ends();
    }

    /// Writes the bytes of a piece that the process may change.
    fn put(&self, open: &mut Opened, at: usize, values: &[u8]) {
        let mut bytes = open.generation.bytes.borrow_mut();
        for part in bytes.free(self.who, at..at + values.len()) {
            let values = &values[part.start - at..part.end - at];
            open.file.put(part.start as u64, values);
            bytes.write(self.who, part.start, values);
        }
    }

    async fn write(&self, making: &Making, open: &mut Opened) {
        let chance = self.program.chance();
        let at = chance.of(0..making.target.most);
        let most = making.target.most - at;
        let len = 1 + chance.of(0..if self.chance(3) { most } else { most.div_ceil(20) });
        let values = chance.values(at, len);
        self.enter(open, false).await;
        open.file.before_write(&self.program, at as u64, len as u64).await.unwrap();
        self.put(open, at, &values);
        open.generation.ends();
    }

    /// Appends, if the process knows where the end is.
    async fn append(&self, making: &Making, open: &mut Opened) {
        self.enter(open, false).await;
        let (end, is_known) = {
            let bytes = open.generation.bytes.borrow();
            (bytes.all.len(), bytes.are_all_certain(self.who))
        };
        if is_known && end < making.target.most {
            let len = 1 + self.program.chance().of(0..making.target.most - end);
            let values = self.program.chance().values(end, len);
            open.file.append(&values);
            open.generation.bytes.borrow_mut().write(self.who, end, &values);
        }
        open.generation.ends();
    }

    async fn resize_to_any(&self, making: &Making, open: &mut Opened) {
        let size = self.program.chance().of(0..making.target.most + 1);
        self.resize(open, if self.chance(4) { 0 } else { size }).await;
    }

    async fn resize(&self, open: &mut Opened, size: usize) {
        self.enter(open, true).await;
        open.generation.bytes.borrow_mut().begin_cut(size);
        open.file.resize(&self.program, size as u64).await.expect("the size changes");
        open.generation.bytes.borrow_mut().cut(size);
        open.cuts += 1;
        open.generation.ends();
    }

    async fn sync(&self, open: &mut Opened) {
        self.enter(open, false).await;
        let newest = {
            let mut bytes = open.generation.bytes.borrow_mut();
            // From now on readers may have the file.
            bytes.show();
            bytes.newest(self.who)
        };
        open.file.sync(&self.program).await.expect("a synchronisation");
        open.generation.bytes.borrow_mut().publish(self.who, newest);
        let published = open.generation.bytes.borrow().published();
        open.file.renew(&self.program).await.expect("a look at what others wrote");
        open.generation.bytes.borrow_mut().see(self.who, &published);
        open.generation.ends();
    }

    /// Reads a part of the file that is being written.
    async fn look(&self, open: &mut Opened) {
        let size = open.generation.bytes.borrow().all.len();
        let at = self.program.chance().of(0..size + 1);
        let len = 1 + self.program.chance().of(0..size + 1 - at);
        self.enter(open, false).await;
        let found = open.file.read(&self.program, at as u64, len as u64).await.unwrap();
        let bytes = open.generation.bytes.borrow();
        if let Some(wrong) = bytes.differs(self.who, at, &found) {
            let (name, found, wanted) = (&self.program.name, found[wrong - at], bytes.all[wrong]);
            panic!("{name}: byte {wrong} is {found}, not {wanted}, while it is written");
        }
        if bytes.are_all_certain(self.who) {
            assert_eq!(open.file.size(), bytes.all.len() as u64, "{}: size", self.program.name);
            let wanted = len.min(bytes.all.len().saturating_sub(at));
            assert_eq!(found.len(), wanted, "{}: bytes read", self.program.name);
        }
        open.generation.ends();
    }

    async fn close(&self, mut open: Opened) {
        self.enter(&mut open, false).await;
        let Opened { file, generation, .. } = open;
        let newest = generation.bytes.borrow().newest(self.who);
        generation.open.set(generation.open.get() - 1);
        generation.is_done.set(generation.open.get() == 0);
        file.close(&self.program).await.expect("a close");
        generation.bytes.borrow_mut().publish(self.who, newest);
        generation.ends();
    }

    /// Gives the generation the name that readers know.
    async fn publish(&self, making: &Making) {
        let (generation, number) = making.generation.borrow().clone().unwrap();
        let (from, to) = (making.path.clone(), making.target.path.clone());
        let options = making.target.options.clone();
        let next = making.target.file.generations.borrow().len();
        assert!(generation.begins(false));
        making.target.file.add(generation.clone());
        let request = Request::Rename(from.clone(), to.clone(), options.clone());
        match self.program.order(request).await {
            Ok(()) => return generation.ends(),
            Err(libc::EXDEV) => {}
            Err(error) => panic!("{}: rename: {error}", self.program.name),
        }
        // As `mv` does it.
        let how = How { path: from.clone(), read: true, blocking: true, ..How::default() };
        let how = How { options: options.clone(), ..how };
        let mut old = OpenFile::open(&self.program, &how).await.expect("what is renamed");
        assert_eq!(old.generation, number, "{}: what is renamed", self.program.name);
        let size = old.size();
        let bytes = old.read(&self.program, 0, size).await.unwrap();
        assert!(bytes == generation.bytes.borrow().all, "{}: what is renamed", self.program.name);
        old.close(&self.program).await.unwrap();
        let how = How { path: to, write: true, create: true, truncate: true, ..how };
        let mut new = OpenFile::open(&self.program, &How { read: false, ..how }).await.unwrap();
        assert_eq!(new.generation, next as u64 + 1, "{}: the new name", self.program.name);
        new.put(0, &bytes);
        new.close(&self.program).await.unwrap();
        generation.ends();
        self.program.order(Request::Unlink(from, options)).await.unwrap();
    }

    /// Reads bytes that its own program has just written.
    async fn look_back(&self, making: &Making) {
        let Some(generation) = making.target.file.newest() else { return };
        let (path, options) = (making.target.path.clone(), making.target.options.clone());
        let (mpi, [read, blocking]) = (self.mpi, [true; 2]);
        let how = How { path, options, mpi, read, blocking, ..How::default() };
        let mut open = OpenFile::open(&self.program, &how).await.expect("what it wrote");
        let (size, name) = (open.size(), &self.program.name);
        let found = open.read(&self.program, 0, size).await.unwrap();
        if let Some(wrong) = generation.bytes.borrow().is_not(&found) {
            panic!("{name}: what it wrote itself: {wrong}");
        }
        open.close(&self.program).await.unwrap();
    }
}
