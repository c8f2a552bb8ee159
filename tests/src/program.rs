//! Compiles the programs of `tests/programs`, once for each MPI.

use crate::{Family, Mpi};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// A test program compiled for one MPI.
#[derive(Clone, Debug)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// The MPI it was compiled for.
    pub mpi: Mpi,
}

static COMPILING: Mutex<()> = Mutex::new(());

/// Compiles `tests/programs/SOURCE` for `mpi`, unless an executable newer than its source is there
/// already.
///
/// # Panics
///
/// If the compiler fails; its output is the message.
pub fn compile(source: &str, mpi: &Mpi) -> Program {
    compile_with(source, mpi, &[])
}

/// The same for a program that needs more libraries, told as the linker's options.
///
/// # Panics
///
/// If the compiler fails.
pub fn compile_with(source: &str, mpi: &Mpi, libraries: &[&str]) -> Program {
    compile_as(source, "", mpi, libraries)
}

/// The same for a program that needs the parallel HDF5 of its MPI; `None`, and a skipped test, if
/// there is none.
pub fn compile_with_hdf5(source: &str, mpi: &Mpi) -> Option<Program> {
    let package = format!("hdf5-{}", mpi.name);
    let options = Command::new("pkg-config").args(["--cflags", "--libs", &package]).output();
    let Some(options) = options.ok().filter(|options| options.status.success()) else {
        crate::skip(&format!("{package} is missing (tests/setup.sh check)"));
        return None;
    };
    let options = String::from_utf8_lossy(&options.stdout).into_owned();
    Some(compile_with(source, mpi, &options.split_whitespace().collect::<Vec<_>>()))
}

/// The same, kept apart by `name` from the program that other options made of the source.
///
/// # Panics
///
/// If the compiler fails.
pub fn compile_as(source: &str, name: &str, mpi: &Mpi, libraries: &[&str]) -> Program {
    let programs = crate::repository().join("tests/programs");
    let input = programs.join(source);
    let directory = crate::target_directory().join("programs").join(&mpi.name).join(name);
    let output = directory.join(source.replace('.', "_"));
    // Two tests may need the same program; a failed test must not fail the others as well.
    let _guard = COMPILING.lock().unwrap_or_else(|poison| poison.into_inner());
    if !is_newer(&output, &input) {
        std::fs::create_dir_all(&directory).expect("the target directory can be written");
        run_compiler(mpi, &input, &output, libraries);
    }
    Program { path: output, mpi: mpi.clone() }
}

/// Compiles `tests/programs/SOURCE` as a library to be preloaded, unless it is there and newer than
/// its source.
///
/// # Panics
///
/// If the compiler fails.
pub fn compile_shim(source: &str) -> PathBuf {
    let name = Path::new(source).with_extension("so");
    compile_library(source, &name.to_string_lossy(), &[])
}

/// Compiles `tests/programs/SOURCE` with `options` as the library of this file name, unless it is
/// there and newer than its source.
///
/// # Panics
///
/// If the compiler fails.
pub fn compile_library(source: &str, name: &str, options: &[&str]) -> PathBuf {
    let input = crate::repository().join("tests/programs").join(source);
    let directory = crate::target_directory().join("programs");
    let output = directory.join(name);
    let _guard = COMPILING.lock().unwrap_or_else(|poison| poison.into_inner());
    if !is_newer(&output, &input) {
        std::fs::create_dir_all(&directory).expect("the target directory can be written");
        let unfinished = directory.join(format!("{name}.{}.tmp", std::process::id()));
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&unfinished).arg(&input);
        compiler.args(options).arg("-ldl");
        let status = compiler.status().expect("a C compiler starts");
        assert!(status.success(), "{source} does not compile");
        std::fs::rename(&unfinished, &output).expect("the compiler wrote its output");
    }
    output
}

/// Compiles `tests/programs/SOURCE` as an ordinary program with `options`, unless it is there and
/// newer than its source.
///
/// # Panics
///
/// If the compiler fails.
pub fn compile_plain(source: &str, options: &[&str]) -> PathBuf {
    let input = crate::repository().join("tests/programs").join(source);
    let directory = crate::target_directory().join("programs/plain");
    let output = directory.join(format!("{source}{}", options.concat()).replace('.', "_"));
    let _guard = COMPILING.lock().unwrap_or_else(|poison| poison.into_inner());
    if !is_newer(&output, &input) {
        let folder = output.parent().unwrap_or(&directory);
        std::fs::create_dir_all(folder).expect("the target directory can be written");
        let unfinished = output.with_extension(format!("{}.tmp", std::process::id()));
        let mut compiler =
            Command::new(match input.extension().and_then(|suffix| suffix.to_str()) {
                Some("cc") => "c++",
                Some("f90") => "gfortran",
                _ => "cc",
            });
        compiler.args(["-g", "-O1", "-o"]).arg(&unfinished).arg(&input).args(options);
        let status = compiler.status().expect("a C compiler starts");
        assert!(status.success(), "{source} does not compile");
        std::fs::rename(&unfinished, &output).expect("the compiler wrote its output");
    }
    output
}

/// Whether `output` is newer than `input` and what is compiled with it.
fn is_newer(output: &Path, input: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
    let Some(built) = changed(output) else {
        return false;
    };
    let oracle = ["io", "latest", "model", "steps"].map(|name| format!("coupled_oracle_{name}.h"));
    let others = ["check.h", "gpu.h", "writers.h", "mpich_yields.c"];
    let headers = others.map(String::from).into_iter().chain(oracle);
    let headers: Vec<PathBuf> = headers.map(|name| input.with_file_name(name)).collect();
    std::iter::once(input)
        .chain(headers.iter().map(PathBuf::as_path))
        .filter_map(changed)
        .all(|input| input < built)
}

fn run_compiler(mpi: &Mpi, input: &Path, output: &Path, libraries: &[&str]) {
    // The executable appears under its name only when it is complete.
    let unfinished = output.with_extension(format!("{}.tmp", std::process::id()));
    let modules = output.parent().unwrap_or(Path::new("."));
    let yields = (mpi.family == Family::Mpich).then(|| compile_yields(modules));
    let result = Command::new(mpi.compiler(input))
        .args(["-g", "-O1", "-o"])
        .arg(&unfinished)
        .arg(input)
        .args(yields)
        .args(libraries)
        .args(["-lpthread", "-lm"])
        .current_dir(modules)
        .output()
        .expect("the MPI compiler starts");
    assert!(
        result.status.success(),
        "{} does not compile for {}:\n{}",
        input.display(),
        mpi.name,
        String::from_utf8_lossy(&result.stderr)
    );
    std::fs::rename(&unfinished, output).expect("the compiler wrote its output");
}

/// Compiles what lets waiting ranks of MPICH yield their cores, into `directory`.
fn compile_yields(directory: &Path) -> PathBuf {
    let input = crate::repository().join("tests/programs/mpich_yields.c");
    let output = directory.join("mpich_yields.o");
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-O1", "-c", "-o"]).arg(&output).arg(&input);
    let status = compiler.status().expect("a C compiler starts");
    assert!(status.success(), "{} does not compile", input.display());
    output
}
