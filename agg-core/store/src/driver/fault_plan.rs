//! Plans of faults: the operations of ranks that fail, and the kind of failure.
//!
//! ```text
//! plan  = rule { ";" rule }
//! rule  = key "=" value { "," key "=" value }
//! when  : op=open|delete|read|write|close|sync|size|resize|preallocate|lock|fetch|stripe|any
//!                    (any if absent; fetch takes the descriptor of the rank that opened the file;
//!                    stripe gives a new file its stripes)
//!         rank=N     only on this rank
//!         path=TEXT  only on files with TEXT in their path
//!         nth=N      only the N-th operation of this kind (the first is 1)
//!         every=N    each N-th operation of this kind
//!         after=N    once N bytes have been moved by operations of this kind
//!         times=N    at most N times (for nth: N operations in a row)
//! fault : errno=NAME|number, short=N (move at most N bytes), delay=MILLISECONDS
//!         fs=lustre  files look as if they were on Lustre: new ones get stripes
//!         fs=timeless  changes of a file show in its size only, not in its times
//!         fs=completing  writes are complete at the last close only
//! ```
//!
//! Operations are counted per open file, rank and kind (opens, fetches and deletes per path and
//! rank), so that a plan means the same in every run. `errno=EINTR` and short transfers may occur
//! on any system at any time; the others are failures. `EINTR` without nth, every or times means
//! `every=2`: a call that is always interrupted is repeated forever.

use aggio_base::{Error, ErrorClass, Result};

macro_rules! kinds {
    ($($kind:ident $name:literal;)*) => {
        /// The kinds of operations that a plan can disturb.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $(#[doc = concat!("Operation `", $name, "` of a plan.")] $kind),* }

        impl Kind {
            pub(super) const COUNT: usize = [$(Kind::$kind),*].len();

            fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Kind::$kind),)* _ => None }
            }
        }
    };
}

kinds! {
    Open "open"; Delete "delete"; Read "read"; Write "write"; Close "close"; Sync "sync";
    Size "size"; Resize "resize"; Preallocate "preallocate"; Lock "lock"; Fetch "fetch";
    Stripe "stripe";
}

const ERRNOS: &[(&str, i32)] = &[
    ("EACCES", libc::EACCES),
    ("EAGAIN", libc::EAGAIN),
    ("EBADF", libc::EBADF),
    ("EBUSY", libc::EBUSY),
    ("EDQUOT", libc::EDQUOT),
    ("EEXIST", libc::EEXIST),
    ("EFBIG", libc::EFBIG),
    ("EINTR", libc::EINTR),
    ("EINVAL", libc::EINVAL),
    ("EIO", libc::EIO),
    ("EISDIR", libc::EISDIR),
    ("ELOOP", libc::ELOOP),
    ("EMFILE", libc::EMFILE),
    ("ENAMETOOLONG", libc::ENAMETOOLONG),
    ("ENOENT", libc::ENOENT),
    ("ENOLCK", libc::ENOLCK),
    ("ENOMEM", libc::ENOMEM),
    ("ENOSPC", libc::ENOSPC),
    ("ENOSYS", libc::ENOSYS),
    ("ENOTDIR", libc::ENOTDIR),
    ("ENXIO", libc::ENXIO),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
    ("EPERM", libc::EPERM),
    ("EROFS", libc::EROFS),
    ("ESTALE", libc::ESTALE),
    ("ETIMEDOUT", libc::ETIMEDOUT),
    ("ETXTBSY", libc::ETXTBSY),
];

/// One sentence of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rule {
    kind: Option<Kind>,
    rank: Option<u64>,
    path: Option<String>,
    nth: Option<u64>,
    every: Option<u64>,
    after: Option<u64>,
    times: Option<u64>,
    errno: Option<i32>,
    short: Option<u64>,
    delay: u64,
    lustre: bool,
    timeless: bool,
    completing: bool,
}

/// The rules that concern one rank of one open file, and the counts of its operations so far.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    rules: Vec<(Rule, u64)>,
    operations: [u64; Kind::COUNT],
    bytes: [u64; Kind::COUNT],
}

/// The effect of the plan on one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Fail with this error code.
    pub(super) errno: Option<i32>,
    /// Move at most this many bytes.
    pub(super) limit: u64,
    /// Wait this many milliseconds first.
    pub(super) delay: u64,
}

impl Rule {
    fn parse(text: &str) -> Result<Self> {
        let mut rule = Rule::default();
        for pair in text.split(',') {
            let wrong = || Error::new(ErrorClass::Arg, format!("fault plan: cannot read {pair:?}"));
            let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
            let (key, value) = (key.trim(), value.trim());
            let number = || value.parse::<u64>().map_err(|_| wrong());
            let positive = || number().and_then(|n| if n > 0 { Ok(n) } else { Err(wrong()) });
            match key {
                "op" if value == "any" => rule.kind = None,
                "op" => rule.kind = Some(Kind::named(value).ok_or_else(wrong)?),
                "rank" => rule.rank = Some(number()?),
                "path" => rule.path = Some(value.to_owned()),
                "nth" => rule.nth = Some(positive()?),
                "every" => rule.every = Some(positive()?),
                "after" => rule.after = Some(number()?),
                "times" => rule.times = Some(positive()?),
                "errno" => rule.errno = Some(errno(value).ok_or_else(wrong)?),
                "short" => rule.short = Some(positive()?),
                "delay" => rule.delay = number()?,
                "fs" if value == "lustre" => rule.lustre = true,
                "fs" if value == "timeless" => rule.timeless = true,
                "fs" if value == "completing" => rule.completing = true,
                _ => return Err(wrong()),
            }
        }
        let unlimited = rule.nth.or(rule.every).or(rule.times).is_none();
        if unlimited && rule.errno == Some(libc::EINTR) {
            rule.every = Some(2);
        }
        Ok(rule)
    }

    fn concerns(&self, path: &str, rank: usize) -> bool {
        self.rank.is_none_or(|wanted| wanted == rank as u64)
            && self.path.as_ref().is_none_or(|part| path.contains(part.as_str()))
    }

    /// Whether the rule applies to the `n`-th operation of a kind that has fired `fired` times.
    fn applies(&self, kind: Kind, n: u64, fired: u64) -> bool {
        let times = self.times.unwrap_or(u64::MAX);
        let in_row = self.nth.is_none_or(|nth| n >= nth && n - nth < self.times.unwrap_or(1));
        self.kind.is_none_or(|wanted| wanted == kind)
            && in_row
            && self.every.is_none_or(|every| n.is_multiple_of(every))
            && fired < times
    }
}

fn errno(text: &str) -> Option<i32> {
    match ERRNOS.iter().find(|(name, _)| *name == text) {
        Some((_, number)) => Some(*number),
        None => text.parse().ok().filter(|number| (1..4096).contains(number)),
    }
}

impl Plan {
    /// Parses a plan and keeps the rules for `rank` and `path`; `ErrorClass::Arg` if it is
    /// malformed.
    pub fn parse(text: &str, path: &str, rank: usize) -> Result<Self> {
        let mut plan = Plan::default();
        for rule in text.split(';').map(str::trim).filter(|rule| !rule.is_empty()) {
            let rule = Rule::parse(rule)?;
            if rule.concerns(path, rank) {
                plan.rules.push((rule, 0));
            }
        }
        Ok(plan)
    }

    /// Counts one operation of `kind` on `len` bytes and returns the plan's effect on it.
    pub(super) fn next(&mut self, kind: Kind, len: u64) -> Verdict {
        let mut verdict = Verdict { errno: None, limit: u64::MAX, delay: 0 };
        self.operations[kind as usize] += 1;
        let n = self.operations[kind as usize];
        let bytes = self.bytes[kind as usize];
        for (rule, fired) in &mut self.rules {
            if verdict.errno.is_some() || !rule.applies(kind, n, *fired) {
                continue;
            }
            let room = rule.after.map_or(0, |after| after.saturating_sub(bytes));
            if room > 0 {
                // A full disk takes as many bytes as fit before it returns an error.
                if len > room && rule.errno.is_some() {
                    verdict.limit = verdict.limit.min(room);
                }
                continue;
            }
            *fired += 1;
            verdict.errno = rule.errno;
            verdict.limit = verdict.limit.min(rule.short.unwrap_or(u64::MAX));
            verdict.delay += rule.delay;
        }
        verdict
    }

    /// Whether files are to look as if they were on Lustre.
    pub(super) fn is_lustre(&self) -> bool {
        self.rules.iter().any(|(rule, _)| rule.lustre)
    }

    /// Whether changes do not show in the file's times.
    pub(super) fn is_timeless(&self) -> bool {
        self.rules.iter().any(|(rule, _)| rule.timeless)
    }

    /// Whether writes are complete at the last close only.
    pub(super) fn is_completing(&self) -> bool {
        self.rules.iter().any(|(rule, _)| rule.completing)
    }

    /// Records that an operation of `kind` has moved `bytes`.
    pub(super) fn moved(&mut self, kind: Kind, bytes: u64) {
        self.bytes[kind as usize] += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(text: &str, kind: Kind, len: u64, count: usize) -> Vec<Option<i32>> {
        let mut plan = Plan::parse(text, "/d/f", 1).unwrap();
        let step = |_| {
            let verdict = plan.next(kind, len);
            if verdict.errno.is_none() {
                plan.moved(kind, len.min(verdict.limit));
            }
            verdict.errno
        };
        (0..count).map(step).collect()
    }

    #[test]
    fn the_nth_operation_of_the_kind_fails_and_no_other() {
        let plan = "op=write,rank=1,nth=3,errno=ENOSPC";
        let full = Some(libc::ENOSPC);
        assert_eq!(verdicts(plan, Kind::Write, 1, 4), [None, None, full, None]);
        assert_eq!(verdicts(plan, Kind::Read, 1, 4), [None; 4]);
        let plan = "op=write,nth=2,times=2,errno=28";
        assert_eq!(verdicts(plan, Kind::Write, 1, 4), [None, full, full, None]);
    }

    #[test]
    fn rules_for_other_ranks_and_paths_are_dropped() {
        assert_eq!(verdicts("op=write,rank=0,errno=EIO", Kind::Write, 1, 1), [None]);
        assert_eq!(verdicts("path=/x/,errno=EIO", Kind::Write, 1, 1), [None]);
        assert_eq!(verdicts("path=/d/,errno=EIO", Kind::Sync, 1, 1), [Some(libc::EIO)]);
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_then_fails_for_good() {
        let mut plan = Plan::parse("op=write,after=10,errno=ENOSPC", "", 0).unwrap();
        assert_eq!(plan.next(Kind::Write, 8).limit, u64::MAX);
        plan.moved(Kind::Write, 8);
        let verdict = plan.next(Kind::Write, 8);
        assert_eq!((verdict.errno, verdict.limit), (None, 2));
        plan.moved(Kind::Write, 2);
        assert_eq!(plan.next(Kind::Write, 6).errno, Some(libc::ENOSPC));
        assert_eq!(plan.next(Kind::Write, 1).errno, Some(libc::ENOSPC));
    }

    #[test]
    fn every_second_operation_is_interrupted() {
        let stop = Some(libc::EINTR);
        for plan in ["every=2,errno=EINTR", "op=read,errno=EINTR"] {
            assert_eq!(verdicts(plan, Kind::Read, 1, 4), [None, stop, None, stop]);
        }
    }

    #[test]
    fn a_plan_that_cannot_be_read_is_refused_by_name() {
        for text in
            ["op=fly", "errno=EWHAT", "nth=0", "short", "op=read,colour=red", "rank=-1", "fs=ntfs"]
        {
            let error = Plan::parse(text, "", 0).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Arg);
            assert!(error.to_string().contains(text.rsplit(',').next().unwrap()), "{error}");
        }
        assert!(Plan::parse(" ; ", "", 0).is_ok());
    }
}
