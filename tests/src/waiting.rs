//! Waiting for a state, and the states that agents of coupled programs tell.

use serde_json::Value;
use std::time::{Duration, Instant};

/// The time after which a state that does not come is a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until `is_reached` returns true.
///
/// # Panics
///
/// If that takes longer than a minute.
#[track_caller]
pub fn until(is_reached: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_reached() {
        assert!(began.elapsed() < LIMIT, "the state never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the statuses of agents. A node without an agent has none, or `null`.
pub fn agents(text: &str) -> Vec<Value> {
    let values = serde_json::Deserializer::from_str(text).into_iter();
    // An agent that is ending or starting may tell nothing.
    values.map_while(Result::ok).filter(|one: &Value| !one.is_null()).collect()
}

/// Waits until the agents are in a state. `statuses` returns their statuses, as JSON.
///
/// # Panics
///
/// If the state does not come within a minute.
#[track_caller]
pub fn until_agents(statuses: impl Fn() -> String, is_reached: impl Fn(&[Value]) -> bool) {
    let began = Instant::now();
    loop {
        let text = statuses();
        if is_reached(&agents(&text)) {
            return;
        }
        assert!(began.elapsed() < LIMIT, "the agents never came into this state: {text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the number of programs that wait for a file or for memory.
pub fn waiting(agents: &[Value]) -> usize {
    agents.iter().map(|agent| agent["waits"].as_array().map_or(0, Vec::len)).sum()
}

/// Returns the number of programs that are connected to their agents.
pub fn connected(agents: &[Value]) -> usize {
    agents.iter().map(|agent| agent["processes"].as_array().map_or(0, Vec::len)).sum()
}
