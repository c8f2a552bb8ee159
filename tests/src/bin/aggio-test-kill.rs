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
use std::io;
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
    /// The program has started. Calls before are those of this program.
    runs: bool,
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
    let child = match start(command) {
        Ok(child) => child,
        Err(error) => {
            eprintln!("aggio-test-kill: {program}: {error}");
            return ExitCode::from(2);
        }
    };
    arm();
    let traced = BTreeSet::from([child]);
    let mut watch = Watch { traced, runs: false, count: 0, number, all, from, killed: None };
    let hung = watch.run(child);
    if !watch.runs {
        return ExitCode::from(2);
    }
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

/// Starts the program as a process that this one traces, and that has stopped.
fn start(mut command: Command) -> io::Result<i32> {
    // SAFETY: this process has one thread, so that no lock is held in the child.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: requests about this process alone. It goes on when it is traced.
            unsafe {
                libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                libc::raise(libc::SIGSTOP);
            }
            let error = stop_at_calls().err().unwrap_or_else(|| command.exec());
            eprintln!("aggio-test-kill: {:?}: {error}", command.get_program());
            std::process::exit(2);
        }
        _ => Ok(child),
    }
}

/// Lets this process, and those that it starts, stop for their tracer at every call that does not
/// only wait. The kernel selects the calls: a stop takes longer than most of them.
fn stop_at_calls() -> io::Result<()> {
    let statement =
        |code: u32, operand| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: operand };
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for (at, call) in WAITS.into_iter().enumerate() {
        // If it is this call, to the last statement, which allows it.
        filter.push(libc::sock_filter {
            jt: (WAITS.len() - at) as u8,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32)
        });
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_TRACE));
    filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter lives as long as the calls.
    let set = || unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    if set() == 0 {
        return Ok(());
    }
    // Without privileges a process must also give up the ways to get some.
    // SAFETY: a flag of this process.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if set() == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
                let interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
                if interrupted {
                    self.kill_everybody();
                }
                return interrupted;
            }
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                self.traced.remove(&pid);
            } else if pid == first && !started {
                started = true;
                let options = libc::PTRACE_O_TRACESECCOMP
                    | libc::PTRACE_O_TRACEFORK
                    | libc::PTRACE_O_TRACEVFORK
                    | libc::PTRACE_O_TRACECLONE
                    | libc::PTRACE_O_TRACEEXEC
                    | libc::PTRACE_O_EXITKILL;
                ptrace(libc::PTRACE_SETOPTIONS, pid, options.into());
                ptrace(libc::PTRACE_CONT, pid, 0);
            } else {
                self.stopped(pid, libc::WSTOPSIG(status), status >> 16);
            }
        }
        false
    }

    fn stopped(&mut self, pid: i32, signal: i32, event: i32) {
        // A new process or thread begins with a stop of its own.
        let new = self.traced.insert(pid);
        self.runs |= event == libc::PTRACE_EVENT_EXEC;
        let is_ours = event != 0 || new || signal == libc::SIGTRAP;
        if event != libc::PTRACE_EVENT_SECCOMP || !self.begins(pid) {
            ptrace(libc::PTRACE_CONT, pid, if is_ours { 0 } else { signal.into() });
        }
    }

    /// A call begins; whether its process was killed instead.
    fn begins(&mut self, pid: i32) -> bool {
        if !self.runs || self.killed.is_some() {
            return false;
        }
        if self.from.as_ref().is_some_and(|file| !file.exists()) {
            return false;
        }
        self.from = None;
        self.count += 1;
        if self.count != self.number {
            return false;
        }
        self.killed = Some(call_of(pid));
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
}

/// The number of the call that the stopped `pid` is about to make.
fn call_of(pid: i32) -> i64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(-1)
}
