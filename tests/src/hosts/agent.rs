//! The agent of a host, which starts commands for clients on other hosts like a server of `rsh`.
//!
//! A client passes its own standard streams, so nothing has to be copied, and its whole
//! environment.

use super::request::Request;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The variable with the directory of the agents' sockets, which are named after the hosts.
pub const SOCKETS: &str = "AGGIO_TEST_HOSTS";

/// Serves clients until the process is killed.
///
/// # Errors
///
/// If the socket cannot be made.
pub fn serve(socket: &Path) -> io::Result<()> {
    // Use another name until it listens: the socket's appearance signals that the host is ready.
    let early = socket.with_extension("early");
    let listener = UnixListener::bind(&early)?;
    std::fs::rename(&early, socket)?;
    for client in listener.incoming() {
        let client = client?;
        std::thread::spawn(move || {
            if let Err(error) = answer(&client) {
                eprintln!("agent: {error}");
            }
        });
    }
    Ok(())
}

/// Runs one command, and kills it if the client closes the connection before.
fn answer(client: &UnixStream) -> io::Result<()> {
    let (request, [input, output, error]) = Request::receive(client)?;
    let (program, arguments) = request.words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&request.directory).process_group(0);
    command.env_clear().envs(request.environment).stdin(input).stdout(output).stderr(error);
    let mut child = command.spawn()?;
    // The agent must not keep the client's streams open.
    drop(command);
    let over = Arc::new(AtomicBool::new(false));
    let group = child.id().cast_signed();
    let (mut watched, ended) = (client.try_clone()?, over.clone());
    std::thread::spawn(move || {
        let _ = watched.read(&mut [0]);
        if !ended.load(Ordering::SeqCst) {
            // SAFETY: takes two numbers; the group is the child's own.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    });
    let status = child.wait()?;
    over.store(true, Ordering::SeqCst);
    let mut client = client;
    client.write_all(&status.into_raw().to_le_bytes())?;
    client.shutdown(std::net::Shutdown::Both)
}

/// Runs a command on `host` with this process' streams, environment and directory.
///
/// # Errors
///
/// If the agent of the host cannot be reached or ends the connection.
pub fn run(host: &str, words: Vec<OsString>) -> io::Result<ExitStatus> {
    let sockets = std::env::var_os(SOCKETS).map(PathBuf::from).unwrap_or_default();
    let mut connection = UnixStream::connect(sockets.join(host))?;
    let directory = std::env::current_dir()?;
    let environment = std::env::vars_os().collect();
    Request { directory, words, environment }.send(&connection)?;
    let mut status = [0; 4];
    connection.read_exact(&mut status)?;
    Ok(ExitStatus::from_raw(i32::from_le_bytes(status)))
}
