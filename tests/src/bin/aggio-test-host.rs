//! The agent of a simulated host, and the client that MPI launchers use in place of `ssh`.
//!
//! ```text
//! aggio-test-host serve SOCKET            starts commands for clients, on the host it runs on
//! aggio-test-host exec HOST WORD...       runs a command on a host, its words unchanged
//! aggio-test-host [OPTION...] HOST WORD... the same in the manner of ssh: a shell reads the words
//! ```

use aggio_tests::hosts::agent;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let result = match words.first().and_then(|word| word.to_str()) {
        Some("serve") if words.len() == 2 => {
            agent::serve(words[1].as_ref()).map(|()| ExitCode::SUCCESS)
        }
        Some("exec") if words.len() > 2 => run(&words[1].to_string_lossy(), words[2..].to_vec()),
        _ => remote_shell(words),
    };
    result.unwrap_or_else(|error| {
        eprintln!("aggio-test-host: {error}");
        ExitCode::from(255)
    })
}

fn remote_shell(words: Vec<OsString>) -> std::io::Result<ExitCode> {
    let mut words = words.into_iter().skip_while(|word| word.as_encoded_bytes().starts_with(b"-"));
    let host = words.next().ok_or(std::io::ErrorKind::InvalidInput)?;
    let line = words.collect::<Vec<_>>().join(" ".as_ref());
    run(&host.to_string_lossy(), vec!["/bin/sh".into(), "-c".into(), line])
}

fn run(host: &str, words: Vec<OsString>) -> std::io::Result<ExitCode> {
    let status = agent::run(host, words)?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(255)))
}
