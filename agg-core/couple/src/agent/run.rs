//! A process that is an agent: started by a program, or by hand.

use super::Agent;
use crate::client::READY;
use crate::place::Place;
use aggio_base::log;
use aggio_base::log::Level;
use aggio_config::settings::Settings;
use aggio_config::settings::couple::CoupleLink;
use aggio_link::ucx;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::FromRawFd;

/// Serves the directory `dir` until nothing is left to do; false if there is an agent already.
///
/// `told` is true if a program has started this process, and waits at descriptor 3 to be told that
/// it is ready; messages go to a file of that directory then, unless `AGGIO_LOG_FILE` names one.
/// With `stays` nothing is left to do only after the first program has come.
///
/// # Errors
/// As [`Agent::new`] and [`Agent::run`].
pub fn run(dir: &str, told: bool, stays: bool) -> io::Result<bool> {
    unblock_signals();
    super::links::allow_descriptors();
    // SAFETY: the program that started this process opened the descriptor for it.
    let ready = told.then(|| unsafe { File::from_raw_fd(READY) });
    configure_log(dir, told);
    let mut agent = link().and_then(|link| Agent::new(dir, link));
    if let Ok(Some(agent)) = &mut agent {
        find_survivors(agent);
    }
    if let Some(mut ready) = ready {
        let said = match &agent {
            Ok(_) => "R".to_owned(),
            Err(error) => error.to_string(),
        };
        ready.write_all(said.as_bytes())?;
    }
    let Some(mut agent) = agent? else { return Ok(false) };
    agent.lifetime.stays = stays;
    agent.run().map(|()| true)
}

/// The link to agents of other nodes.
fn link() -> io::Result<CoupleLink> {
    let name = std::env::var(CoupleLink::VARIABLE).unwrap_or_default();
    let named = if name.is_empty() { Some(CoupleLink::Tcp) } else { CoupleLink::named(&name) };
    let link = named.ok_or_else(|| {
        let why = format!("{}={name}: it is tcp or ucx", CoupleLink::VARIABLE);
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })?;
    for (name, value) in ucx::ENVIRONMENT {
        if link == CoupleLink::Ucx && std::env::var_os(name).is_none() {
            // SAFETY: this process has no other thread yet.
            unsafe { std::env::set_var(name, value) };
        }
    }
    Ok(link)
}

/// Looks for what an earlier agent has left, where this process is told of directories. Others are
/// looked at when programs name them.
fn find_survivors(agent: &mut Agent) {
    let settings = Settings::of_process(&mut Default::default());
    for rule in &settings.coupling.rules {
        if let Err(error) = agent.owner.life.find_survivors(&rule.options) {
            log!(Level::Error, "agent: {error}");
        }
    }
}

fn configure_log(dir: &str, told: bool) {
    let mut file = std::env::var("AGGIO_LOG_FILE").unwrap_or_default();
    if file.is_empty()
        && told
        && let Ok(place) = Place::open(dir)
    {
        file = place.visible("log").to_string_lossy().into_owned();
    }
    let level = std::env::var("AGGIO_LOG").unwrap_or_default();
    let level = level.split(',').next().unwrap_or_default();
    let known = Level::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(level));
    log::configure(known.unwrap_or(Level::Warn), true, &file);
}

/// The thread that started this process had blocked all signals meanwhile.
fn unblock_signals() {
    // SAFETY: all-zero bytes are a valid set, which the call empties; no handler is installed.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}
