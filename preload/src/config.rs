//! The environment of the process: switches and hints, read once.

use agg_core::Engine;
use agg_core::diagnostics::Diagnostics;
use agg_core::driver::Drivers;
use agg_core::format::Formats;
use agg_core::hints::Sources;
use agg_core::log;
use agg_core::settings::{self, Settings, sets::SetRule};
use agg_core::stage;
use agg_core::workers::Workers;
use aggio_formats::SetDriver;
use aggio_posix::Config;
use aggio_posix::coupled;
use std::path::Path;
use std::sync::{Arc, OnceLock};

static CONFIG: OnceLock<Config> = OnceLock::new();

/// The settings of the environment. The first call reads them and reports errors in them; with
/// `AGGIO_STRICT=1` an error ends the process.
pub fn get() -> &'static Config {
    CONFIG.get_or_init(|| {
        // Files of hints are read here, by functions that would ask for the rules.
        let _inside = crate::posix::Inside::enter();
        read()
    })
}

/// Whether `AGGIO` is a plain `off`; looks at nothing else and keeps nothing.
pub fn is_plainly_off() -> bool {
    std::env::var_os("AGGIO").is_some_and(|value| value == "off" || value == "0")
}

fn read() -> Config {
    let mut complaints = Diagnostics::default();
    let settings = Settings::of_process(&mut complaints);
    let variable = |name: &str| settings::process_variable(name);
    let file = |name: &str| std::fs::read(name);
    if let Some(rank) = settings::launcher_rank(&variable) {
        log::set_rank(rank);
    }
    let config = if settings.on {
        let sources = Sources::read(&variable, &file, &mut complaints);
        let sets = (settings.sets != SetRule::Off).then(crate::sets::driver);
        Config { engine: Arc::new(engine(&settings, sets)), settings, sources, sets }
    } else {
        let engine = Arc::new(Engine::default());
        Config { settings, sources: Sources::default(), engine, sets: None }
    };
    if let Err(error) = config.settings.apply(&complaints) {
        log::write(log::Level::Error, format_args!("{error}"));
        // SAFETY: ends the process; no lock of ours is needed by exit handlers.
        unsafe { libc::exit(1) };
    }
    config
}

/// The engine of this process, with all drivers, formats and workers.
fn engine(settings: &Settings, sets: Option<SetDriver>) -> Engine {
    // Files that our threads open are not files of the program.
    let workers = Workers::new(|| std::mem::forget(crate::posix::Inside::enter()));
    let drivers = Drivers::new(&settings.blobs, settings.measures);
    let drivers = match sets {
        Some(sets) => drivers.with(Arc::new(sets)),
        None => drivers,
    };
    let drivers = match stage::home_of(&settings.stage) {
        Some(home) => {
            if let Some(directory) = settings.stage.directory() {
                drivers.containers().stage_logs(Path::new(directory));
            }
            let staged = stage::Staged::new(home).with_workers(workers.clone());
            drivers.with_last(Arc::new(staged))
        }
        None => drivers,
    };
    // Added last, so that it goes before all others: a coupled file is served by nothing else.
    let drivers = match settings.coupling.rules.is_empty() {
        true => drivers,
        false => drivers.with_coupling(coupled::shared(settings)),
    };
    Engine::new(drivers)
        .with_formats(Formats::new(aggio_formats::FORMATS))
        .with_recaster(&aggio_formats::E3sm)
        .with_workers(workers)
}
