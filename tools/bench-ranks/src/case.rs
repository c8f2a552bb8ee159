//! One case: prepare, take the limit, measure, verify.

use crate::Job;
use crate::bytes::{self, Buffer};
use crate::clock::timed;
use crate::file::{MpiFile, Operation};
use crate::limit::{self, Before};
use crate::overlap::Computation;
use crate::requests;
use crate::transfer::Transfer;
use aggio_patterns::{Access, Pattern};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

#[derive(Clone, Copy)]
enum Method {
    Collective,
    Independent,
    Overlap { with_tests: bool },
}

pub(crate) struct Case {
    method: Method,
    operation: Operation,
    pattern: Pattern,
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [method, operation, pattern] = text.splitn(3, ':').collect::<Vec<_>>()[..] else {
            return Err("want METHOD:OPERATION:PATTERN".into());
        };
        let method = match method {
            "collective" => Method::Collective,
            "independent" => Method::Independent,
            "overlap" => Method::Overlap { with_tests: false },
            "overlap-test" => Method::Overlap { with_tests: true },
            _ => return Err(format!("unknown method {method}")),
        };
        let operation = match operation {
            "write" => Operation::Write,
            "read" => Operation::Read,
            _ => return Err(format!("unknown operation {operation}")),
        };
        let pattern: Pattern = pattern.parse()?;
        if pattern.opens().is_some() && !matches!(method, Method::Collective) {
            return Err("files are opened collectively".into());
        }
        Ok(Self { method, operation, pattern })
    }
}

/// The printed results of a case.
pub(crate) struct Outcome {
    pub(crate) seconds: f64,
    pub(crate) limit: f64,
    pub(crate) hidden: Option<f64>,
    pub(crate) requests: Option<u64>,
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "seconds={:.6} limit={:.6}", self.seconds, self.limit)?;
        if let Some(hidden) = self.hidden {
            write!(f, " hidden={hidden:.3}")?;
        }
        if let Some(requests) = self.requests {
            write!(f, " requests={requests}")?;
        }
        Ok(())
    }
}

/// The case that warms up and the number of its calls: implementations keep memory for several
/// calls that may overlap.
const WARMING: (&str, u32) = ("collective:write:interleaved,piece=64K,bytes=8M", 4);

/// Makes some collective calls that are not measured.
pub(crate) fn warm_up(job: &Job) -> Result<(), String> {
    let (case, times) = (WARMING.0.parse::<Case>()?, WARMING.1);
    let access = case.pattern.access(job.rank(), job.ranks());
    let mut buffer = Buffer::new(&access.memory);
    buffer.scatter(&bytes::packed(&access));
    let (path, before) = (job.path("warm"), Before::of(case.operation, false, job));
    case.prepare(&path, before, job)?;
    for _ in 0..times {
        case.measure(&path, before, &access, &mut buffer, job)?;
    }
    limit::remove(&path, job);
    Ok(())
}

/// Prints that the measured calls begin now.
pub(crate) fn announce(job: &Job, case: &str) {
    if job.rank() == 0 {
        println!("start {case}");
    }
}

impl Case {
    /// Runs the case once; `text` is its printed name.
    pub(crate) fn run(&self, text: &str, job: &Job) -> Result<Outcome, String> {
        if let Some(count) = self.pattern.opens() {
            return crate::opens::run(text, self.operation, count, job);
        }
        let access = self.pattern.access(job.rank(), job.ranks());
        let mut packed = bytes::packed(&access);
        let mut buffer = Buffer::new(&access.memory);
        let before = Before::of(self.operation, self.pattern.has_holes(), job);
        let limit = match self.operation {
            Operation::Write => {
                buffer.scatter(&packed);
                limit::measure(self.operation, before, &mut packed, job)?
            }
            Operation::Read => {
                // Memory that was touched before, so that the limit does not pay for new pages.
                let mut other = vec![0xa5; packed.len()];
                limit::measure(self.operation, before, &mut other, job)?
            }
        };
        let path = job.path("data");
        self.prepare(&path, before, job)?;
        announce(job, text);
        let mut outcome = self.measure(&path, before, &access, &mut buffer, job)?;
        outcome.limit = limit;
        self.verify(&path, &packed, &mut buffer, job)?;
        limit::remove(&path, job);
        Ok(outcome)
    }

    fn prepare(&self, path: &str, before: Before, job: &Job) -> Result<(), String> {
        limit::make(path, self.pattern.span(job.ranks()), before, job)
    }

    fn measure(
        &self,
        path: &str,
        before: Before,
        access: &Access,
        buffer: &mut Buffer,
        job: &Job,
    ) -> Result<Outcome, String> {
        let mut transfer = Transfer::new(self.operation, access, buffer.data())?;
        let open = || -> Result<MpiFile, String> {
            let mut file = MpiFile::open(path, self.operation)?;
            file.set_view(&access.view)?;
            Ok(file)
        };
        let mut file = open()?;
        let seen = requests::seen(job.requests.as_ref())?;
        let (seconds, hidden);
        match self.method {
            Method::Collective | Method::Independent => {
                let collective = matches!(self.method, Method::Collective);
                seconds = timed(job, || transfer.blocking(&mut file, collective))?;
                hidden = None;
            }
            Method::Overlap { with_tests } => {
                let alone = timed(job, || transfer.nonblocking(&mut file, |_| {}))?;
                file.close()?;
                let computation = Computation::as_long_as(alone, job)?;
                self.prepare(path, before, job)?;
                file = open()?;
                seconds = computation.beside(&mut transfer, &mut file, with_tests, job)?;
                hidden = Some(computation.hidden(alone, seconds));
            }
        }
        let requests = requests::seen(job.requests.as_ref())? - seen;
        file.close()?;
        // Opening and preparing twice would be counted as well.
        let requests = (job.requests.is_some() && hidden.is_none()).then_some(requests);
        Ok(Outcome { seconds, limit: f64::NAN, hidden, requests })
    }

    fn verify(
        &self,
        path: &str,
        packed: &[u8],
        buffer: &mut Buffer,
        job: &Job,
    ) -> Result<(), String> {
        // A write must leave the memory as it was.
        buffer.verify(packed)?;
        if self.operation == Operation::Write && job.rank() == 0 {
            bytes::verify_file(path, &self.pattern, job.ranks())?;
        }
        Ok(())
    }
}
