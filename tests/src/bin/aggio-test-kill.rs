//! Runs a program and kills one of its processes, or all, at a system call with a given number.
//!
//! ```text
//! aggio-test-kill [--all | --rank RANK] [--from FILE] NUMBER PROGRAM [ARGUMENT...]
//! ```
//!
//! System calls of all processes and threads of the program are counted together as they begin,
//! except those that only wait: their number depends on the load of the machine. At the one with
//! NUMBER its process (with `--all`, every process of the program) gets SIGKILL before
//! the call is carried out; the others continue untouched. Prints `killed in call CALL` or `ended
//! after COUNT calls`, and `hung` if something was still running half a minute later, which it then
//! kills. `--rank` is for a rank of an MPI job: ranks other than RANK run untouched, and when RANK
//! is killed this process kills itself, for the launcher to see. With `--from` calls count once
//! FILE is there.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Calls that only wait.
const WAITS: [i64; 7] = [
    libc::SYS_sched_yield,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
];

/// Seconds after which nothing of the program may be running.
const PATIENCE: u32 = 30;

/// Processes and threads of the program, and how far it is.
struct Watch {
    traced: BTreeSet<i32>,
    /// Those that will stop next at the end of a call.
    inside: BTreeSet<i32>,
    count: u64,
    number: u64,
    all: bool,
    /// Calls count once this file is there.
    from: Option<PathBuf>,
    killed: Option<i64>,
}

fn main() -> ExitCode {
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    let all = arguments.first().is_some_and(|first| first == "--all");
    arguments.drain(..usize::from(all));
    let of_rank = arguments.first().is_some_and(|first| first == "--rank");
    let another = of_rank && arguments.get(1) != rank().as_ref();
    arguments.drain(..2 * usize::from(of_rank));
    let mut from = None;
    if arguments.len() > 1 && arguments[0] == "--from" {
        from = arguments.drain(..2).next_back().map(PathBuf::from);
    }
    let number = arguments.first().and_then(|text| text.parse().ok());
    let (Some(number), Some(program)) = (number, arguments.get(1)) else {
        eprintln!("aggio-test-kill: wanted [--all | --rank RANK] [--from FILE] NUMBER PROGRAM ...");
        return ExitCode::from(2);
    };
    let mut command = Command::new(program);
    command.args(&arguments[2..]);
    if another {
        eprintln!("aggio-test-kill: {program}: {}", command.exec());
        return ExitCode::from(2);
    }
    // SAFETY: the two calls are allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            Ok(())
        })
    };
    let child = match command.spawn() {
        Ok(child) => child.id() as i32,
        Err(error) => {
            eprintln!("aggio-test-kill: {program}: {error}");
            return ExitCode::from(2);
        }
    };
    arm();
    let (traced, inside) = (BTreeSet::from([child]), BTreeSet::new());
    let mut watch = Watch { traced, inside, count: 0, number, all, from, killed: None };
    let hung = watch.run(child);
    match (hung, watch.killed) {
        (true, _) => println!("hung"),
        (_, Some(call)) => println!("killed in call {call}"),
        (_, None) => println!("ended after {} calls", watch.count),
    }
    if of_rank && (hung || watch.killed.is_some()) {
        // SAFETY: a signal to this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    ExitCode::SUCCESS
}

/// The rank of this process, from the variables of launchers.
fn rank() -> Option<String> {
    ["OMPI_COMM_WORLD_RANK", "PMI_RANK"].iter().find_map(|name| std::env::var(name).ok())
}

/// Lets SIGALRM interrupt the waiting when patience is at its end.
fn arm() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: a handler that does nothing, without SA_RESTART.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
        libc::alarm(PATIENCE);
    }
}

fn ptrace(request: libc::c_uint, pid: i32, data: i64) -> i64 {
    // SAFETY: none of the requests used here writes to memory of this process.
    unsafe { libc::ptrace(request, pid, 0, data) }
}

impl Watch {
    /// Until nobody is left; whether somebody had to be killed for taking too long.
    fn run(&mut self, first: i32) -> bool {
        let mut started = false;
        while !self.traced.is_empty() {
            let mut status = 0;
            // SAFETY: the status is a local variable.
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
            if pid == -1 {
                let interrupted =
                    std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
                if interrupted {
                    self.kill_everybody();
                }
                return interrupted;
            }
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                self.traced.remove(&pid);
                self.inside.remove(&pid);
            } else if pid == first && !started {
                started = true;
                let options = libc::PTRACE_O_TRACESYSGOOD
                    | libc::PTRACE_O_TRACEFORK
                    | libc::PTRACE_O_TRACEVFORK
                    | libc::PTRACE_O_TRACECLONE
                    | libc::PTRACE_O_TRACEEXEC
                    | libc::PTRACE_O_EXITKILL;
                ptrace(libc::PTRACE_SETOPTIONS, pid, options.into());
                self.go_on(pid, 0);
            } else {
                self.stopped(pid, libc::WSTOPSIG(status), status >> 16);
            }
        }
        false
    }

    fn stopped(&mut self, pid: i32, signal: i32, event: i32) {
        // A new process or thread begins with a stop of its own.
        let new = self.traced.insert(pid);
        if signal == libc::SIGTRAP | 0x80 {
            if self.inside.remove(&pid) || !self.begins(pid) {
                self.go_on(pid, 0);
            }
        } else if event != 0 || new || signal == libc::SIGTRAP {
            self.go_on(pid, 0);
        } else {
            self.go_on(pid, signal);
        }
    }

    /// A call begins; whether its process was killed instead.
    fn begins(&mut self, pid: i32) -> bool {
        self.inside.insert(pid);
        if self.from.as_ref().is_some_and(|file| !file.exists()) {
            return false;
        }
        self.from = None;
        let call = call_of(pid);
        if self.killed.is_some() || WAITS.contains(&call) {
            return false;
        }
        self.count += 1;
        if self.count != self.number {
            return false;
        }
        self.killed = Some(call);
        if self.all {
            self.kill_everybody();
        } else {
            // SAFETY: a signal to a stopped process of ours.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        true
    }

    fn kill_everybody(&self) {
        for pid in &self.traced {
            // SAFETY: a signal to processes of ours.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
    }

    /// Once somebody is killed, the others need not be stopped any more.
    fn go_on(&self, pid: i32, signal: i32) {
        let how = if self.killed.is_some() { libc::PTRACE_CONT } else { libc::PTRACE_SYSCALL };
        ptrace(how, pid, signal.into());
    }
}

/// The number of the call that the stopped `pid` is about to make.
fn call_of(pid: i32) -> i64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(-1)
}
