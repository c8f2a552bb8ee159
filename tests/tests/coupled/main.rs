//! Programs that exchange files in memory (`AGGIO_COUPLE`).

mod budget;
mod campaign;
mod changes;
mod deaths;
mod early;
mod examples;
mod formats;
mod generations;
mod hosts;
mod late_ranks;
mod limits;
mod listing;
mod mount;
mod mpi;
mod nodes;
mod pairs;
mod random;
mod reads;
mod room;
mod security;
mod spread;
mod starts;
mod steps;
mod survival;
