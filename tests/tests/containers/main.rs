//! Containers and sets of blobs, and programs that write them.

mod blobs;
mod campaign;
mod e3sm;
mod kept;
mod killed;
mod land;
mod nameless;
mod ordinary;
mod refused;
mod sealing;
mod set_names;
mod sets;
