//! Links the unwinder of Rust's standard library statically.
//!
//! A program in C, which most are, does not need `libgcc_s.so.1`. If the preloaded library did,
//! each process that inherits `LD_PRELOAD` would look for it, map it, and run its constructor,
//! whose CPUID instructions alone take some 40 µs in a virtual machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CC");
    let Some(folder) = env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    // Where the compiler has no such archives, the library is needed at run time, as by any Rust
    // program.
    let (Some(unwinder), Some(helpers)) = (archive("libgcc_eh.a"), archive("libgcc.a")) else {
        return;
    };
    let script = format!("INPUT ( {} {} )\n", unwinder.display(), helpers.display());
    if fs::write(folder.join("libgcc_s.so"), script).is_ok() {
        println!("cargo:rustc-link-search=native={}", folder.display());
    }
}

/// Where the C compiler has an archive of its own.
fn archive(name: &str) -> Option<PathBuf> {
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler).arg(format!("-print-file-name={name}")).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    let path = Path::new(path.trim());
    path.is_absolute().then(|| path.to_path_buf()).filter(|path| path.exists())
}
