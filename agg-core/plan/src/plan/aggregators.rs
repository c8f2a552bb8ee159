//! Which ranks are aggregators: the hints `cb_config_list` and `cb_nodes`, or a default.
//!
//! ```text
//! list := item (',' item)*      item := name [':' max]
//! name := a host's name | '*' (every host that no item before named)
//! max  := a number | '*' (all ranks of the host); 1 if absent
//! ```
//!
//! Items take ranks from left to right, up to `cb_nodes` ranks. A name that no rank runs on is
//! skipped.

use aggio_base::error::{Error, ErrorClass, Result};
use aggio_config::hints::{Hints, Origin};
use std::collections::HashMap;

/// Ranks of one host that share an aggregator unless hints say otherwise.
const RANKS_PER_AGGREGATOR: usize = 2;

/// Aggregators by default, unless there are more hosts: as many as any file system keeps busy, and
/// few enough for every rank to have the list.
const ENOUGH: usize = 256;

/// The aggregators for ranks on `hosts` that the hints of an open ask for; see [`choose`].
///
/// # Errors
/// As [`choose`].
pub fn from_hints(hosts: &[String], hints: &Hints) -> Result<Vec<usize>> {
    let is_set = hints.origin("cb_config_list") != Some(Origin::Default);
    choose(hosts, is_set.then_some(&*hints.cb_config_list), hints.cb_nodes)
}

/// The aggregators for ranks on `hosts` (in rank order), in the order in which they get domains.
///
/// `config_list` is the hint if it is set; `nodes` is the hint `cb_nodes`, 0 if unset.
///
/// # Errors
/// `ErrorClass::Io` if the list cannot be read or selects no rank; the same on all ranks.
pub fn choose(hosts: &[String], config_list: Option<&str>, nodes: u32) -> Result<Vec<usize>> {
    let most = if nodes == 0 { usize::MAX } else { nodes as usize }.min(hosts.len());
    let Some(list) = config_list.filter(|list| !list.trim().is_empty()) else {
        return Ok(by_default(&by_host(hosts), nodes));
    };
    let mut chosen = Vec::new();
    let mut groups = by_host(hosts);
    for item in list.split(',') {
        let (name, max) = parse_item(item.trim())?;
        let named: Vec<Vec<usize>> = if name == "*" {
            groups.drain(..).map(|(_, ranks)| ranks).collect()
        } else {
            let at = groups.iter().position(|(host, _)| *host == name);
            at.map(|at| groups.remove(at).1).into_iter().collect()
        };
        take(&named, max, most, &mut chosen);
    }
    if chosen.is_empty() {
        let detail = format!("cb_config_list \"{list}\" selects no rank");
        return Err(Error::new(ErrorClass::Io, detail));
    }
    Ok(chosen)
}

/// The hosts in the order of their lowest rank, each with its ranks.
fn by_host(hosts: &[String]) -> Vec<(&str, Vec<usize>)> {
    let mut places = HashMap::new();
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    for (rank, host) in hosts.iter().enumerate() {
        let place = *places.entry(host.as_str()).or_insert_with(|| {
            groups.push((host, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(rank);
    }
    groups
}

/// A name and the number of ranks to take on it.
fn parse_item(item: &str) -> Result<(&str, usize)> {
    // Only the last colon counts: a name may be an address with colons of its own.
    let (name, max) = match item.rsplit_once(':') {
        None => (item, 1),
        Some((name, "*")) => (name, usize::MAX),
        Some((name, number)) => {
            let max = number.trim().parse::<u32>().map_err(|_| {
                let detail = format!("cb_config_list: \"{number}\" in \"{item}\" is no number");
                Error::new(ErrorClass::Io, detail)
            })?;
            (name, max as usize)
        }
    };
    if name.trim().is_empty() {
        let detail = format!("cb_config_list: \"{item}\" names no host");
        return Err(Error::new(ErrorClass::Io, detail));
    }
    Ok((name.trim(), max))
}

/// Takes up to `max` ranks of each group, one of each in turn so that hosts share the work; all
/// ranks of many hosts in rank order if `max` sets no limit.
fn take(groups: &[Vec<usize>], max: usize, most: usize, chosen: &mut Vec<usize>) {
    let mut ranks: Vec<usize> = Vec::new();
    if max == usize::MAX {
        ranks = groups.concat();
        ranks.sort_unstable();
    } else {
        let rounds = groups.iter().map(Vec::len).max().unwrap_or(0).min(max);
        for round in 0..rounds {
            ranks.extend(groups.iter().filter_map(|group| group.get(round)));
        }
    }
    let room = most.saturating_sub(chosen.len());
    chosen.extend(ranks.into_iter().take(room));
}

/// One aggregator for every [`RANKS_PER_AGGREGATOR`] ranks of a host, evenly spread over them, as
/// long as that makes not more than [`ENOUGH`]; or `nodes` of them, spread over hosts first.
fn by_default(groups: &[(&str, Vec<usize>)], nodes: u32) -> Vec<usize> {
    let wanted: Vec<usize> = if nodes == 0 {
        let most = (ENOUGH / groups.len().max(1)).max(1);
        let part = |ranks: usize| ranks.div_ceil(RANKS_PER_AGGREGATOR).min(most);
        groups.iter().map(|(_, ranks)| part(ranks.len())).collect()
    } else {
        share_out(groups, nodes as usize)
    };
    let mut spread: Vec<Vec<usize>> = Vec::new();
    for ((_, ranks), n) in groups.iter().zip(wanted) {
        spread.push((0..n).map(|i| ranks[i * ranks.len() / n]).collect());
    }
    let mut chosen = Vec::new();
    take(&spread, usize::MAX - 1, usize::MAX, &mut chosen);
    chosen
}

/// Gives each host in turn one of `n` places, up to the number of its ranks.
fn share_out(groups: &[(&str, Vec<usize>)], n: usize) -> Vec<usize> {
    let mut wanted = vec![0; groups.len()];
    let mut left = n.min(groups.iter().map(|(_, ranks)| ranks.len()).sum());
    while left > 0 {
        for (place, (_, ranks)) in wanted.iter_mut().zip(groups) {
            if left > 0 && *place < ranks.len() {
                *place += 1;
                left -= 1;
            }
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(hosts: &str) -> Vec<String> {
        hosts.split(' ').map(String::from).collect()
    }

    fn listed(hosts: &str, list: &str, nodes: u32) -> Vec<usize> {
        choose(&on(hosts), Some(list), nodes).expect("a list that selects ranks")
    }

    #[test]
    fn a_star_takes_the_first_rank_of_each_host() {
        assert_eq!(listed("a a b b c", "*:1", 0), [0, 2, 4]);
        assert_eq!(listed("a a b b c", "*", 2), [0, 2]);
    }

    #[test]
    fn more_than_one_rank_a_host_are_taken_in_turn() {
        assert_eq!(listed("a a a b b c", "*:2", 0), [0, 3, 5, 1, 4]);
        assert_eq!(listed("a b a b", "*:*", 3), [0, 1, 2]);
    }

    #[test]
    fn names_are_taken_from_left_to_right_and_a_star_means_the_others() {
        assert_eq!(listed("a b b c c", "c:2,b,*:1", 0), [3, 4, 1, 0]);
        assert_eq!(listed("a b b c c", "c:*, nobody:3 ,*:*", 4), [3, 4, 0, 1]);
    }

    #[test]
    fn a_host_with_max_0_is_left_out() {
        assert_eq!(listed("a b b", "b:0,*", 0), [0]);
    }

    #[test]
    fn a_list_that_selects_nobody_or_makes_no_sense_is_an_error() {
        for list in ["nobody", "a:0", "a:x", ":3", "a,,b", "a:-1"] {
            let error = choose(&on("a b"), Some(list), 0).expect_err(list);
            assert_eq!(error.class(), ErrorClass::Io, "{list}");
        }
    }

    #[test]
    fn by_default_every_second_rank_of_a_host_is_an_aggregator() {
        let default = |hosts: &str, nodes| choose(&on(hosts), None, nodes).expect("a default");
        assert_eq!(default("a", 0), [0]);
        assert_eq!(default("a a a a", 0), [0, 2]);
        assert_eq!(default("a a a a b", 0), [0, 4, 2]);
        assert_eq!(default("a a a a b b", 3), [0, 4, 2]);
        let many = |hosts: usize, each: usize| {
            let hosts: Vec<String> = (0..hosts * each).map(|r| (r / each).to_string()).collect();
            choose(&hosts, None, 0).expect("a default").len()
        };
        assert_eq!((many(1, 100), many(8, 100), many(1000, 10)), (50, 256, 1000));
        assert_eq!(default("a a", 9), [0, 1]);
        assert_eq!(default("a a a a", 1), [0]);
    }
}
