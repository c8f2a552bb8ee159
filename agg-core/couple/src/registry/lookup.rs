//! Names without opening them: looking, listing, removing, renaming, cutting.

use super::{Area, Choice, Options, Path, Process, Registry};

impl Registry {
    /// Returns the generation that a process finds under a name, if any. `Some(None)` is a file
    /// that it has cut to no bytes, which has no memory.
    pub(crate) fn look(
        &self,
        process: Process,
        path: &[u8],
        options: Options,
    ) -> Option<Option<Area>> {
        self.files.look(&self.processes.caller(process), path, &options)
    }

    /// Names below the directory `dir`, without it, that a process finds there, or can view.
    pub(crate) fn list(&self, process: Process, dir: &[u8], view: bool) -> Vec<Path> {
        let caller = self.processes.caller(process);
        self.files.names.list(dir, |path, name| match view {
            true => self.files.view(&caller, path).is_some(),
            false => self.files.look(&caller, path, &name.options).is_some(),
        })
    }

    /// Removes a name for its writer, or says that a reader is done with its generation.
    ///
    /// # Errors
    /// `ENOENT`
    pub(crate) fn unlink(
        &mut self,
        process: Process,
        path: &[u8],
        options: Options,
    ) -> Result<(), i32> {
        let caller = self.processes.caller(process);
        let choice = self.files.choose(&caller, path, &options);
        let name = self.files.names.get_mut(path).ok_or(libc::ENOENT)?;
        if name.emptied && name.writer == Some(caller.job) {
            name.emptied = false;
            return Ok(());
        }
        match choice {
            Choice::Own(area) => self.files.hide(area),
            Choice::Dropped => name.dropped = 0,
            // What it removes is the one before, if there is one.
            Choice::OwnLost(area) => {
                self.files.names.has_told_of_death(process, area);
                return self.unlink(process, path, options);
            }
            // The last one that it has read, which is no word on those that came meanwhile.
            _ if name.removes_first(&caller) => {}
            Choice::Next(area) => {
                self.files.skip(&caller, area);
                self.give_up(path);
            }
            _ => return Err(libc::ENOENT),
        }
        Ok(())
    }

    /// Cuts the file of this name to no bytes: the writer's next open begins a generation.
    ///
    /// # Errors
    /// `ENOENT`
    pub(crate) fn empty(&mut self, process: Process, path: &[u8]) -> Result<(), i32> {
        self.files.empty(self.processes.caller(process).job, path)
    }

    /// Gives the generation that the process finds under `from` the name `to`, as its newest one.
    ///
    /// # Errors
    /// `ENOENT`
    pub(crate) fn rename(
        &mut self,
        process: Process,
        from: &[u8],
        to: &[u8],
        options: Options,
    ) -> Result<(), i32> {
        let caller = self.processes.caller(process);
        let sequence = self.files.sequence(from).ok_or(libc::ENOENT)?;
        let area = sequence.meant(&caller, &sequence.name.options).ok_or(libc::ENOENT)?;
        if from == to {
            return Ok(());
        }
        for open in self.opens.end_reading(area) {
            self.files.stop_reading(from, open.process, open.job, true);
        }
        self.files.rename(area, caller.job, to, options);
        self.give_up(to);
        Ok(())
    }
}
