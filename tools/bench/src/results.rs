//! Measurements, and the ratios computed from them.

use crate::cases::Case;
use crate::server::{SERVERS, Server};

/// One run of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measurement {
    pub(crate) round: usize,
    pub(crate) seconds: f64,
    /// Of the limit, in the same job.
    pub(crate) limit: f64,
    /// Part of the shorter of I/O and computation that overlapping hid.
    pub(crate) hidden: Option<f64>,
    /// Reads and writes that the file system saw.
    pub(crate) requests: Option<u64>,
}

/// Why a case has no times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    /// It was given up after so many seconds.
    TimedOut(u64),
    /// The job ended with this message, for example because data were wrong.
    Failed(String),
}

/// All runs of one case under one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub(crate) measurements: Vec<Measurement>,
    pub(crate) failure: Option<Failure>,
}

impl Series {
    fn median_of(&self, value: impl Fn(&Measurement) -> Option<f64>) -> Option<f64> {
        if self.failure.is_some() {
            return None;
        }
        median(&self.measurements.iter().filter_map(value).collect::<Vec<_>>())
    }

    /// Seconds of the limit / seconds of the case.
    pub(crate) fn part_of_limit(&self) -> Option<f64> {
        self.median_of(|one| Some(one.limit / one.seconds))
    }

    pub(crate) fn seconds(&self) -> Option<f64> {
        self.median_of(|one| Some(one.seconds))
    }

    pub(crate) fn hidden(&self) -> Option<f64> {
        self.median_of(|one| one.hidden)
    }

    pub(crate) fn requests(&self) -> Option<f64> {
        self.median_of(|one| one.requests.map(|requests| requests as f64))
    }

    /// How many times faster this is than `other`, and whether it is at least that.
    fn speed_against(&self, other: &Series) -> Option<Ratio> {
        let mine = self.seconds()?;
        match other.failure {
            Some(Failure::Failed(_)) => None,
            Some(Failure::TimedOut(seconds)) => {
                Some(Ratio { value: seconds as f64 / mine, at_least: true })
            }
            None => {
                let rounds = self.measurements.iter().filter_map(|one| {
                    let same = |two: &&Measurement| two.round == one.round;
                    Some(other.measurements.iter().find(same)?.seconds / one.seconds)
                });
                let value = median(&rounds.collect::<Vec<_>>())?;
                Some(Ratio { value, at_least: false })
            }
        }
    }
}

/// A ratio of speeds; above 1, aggio is faster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    /// The other one never ended.
    pub(crate) at_least: bool,
}

/// The middle value, or the mean of the middle two.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// One case at one place with one number of ranks: a series for each server.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) place: String,
    pub(crate) ranks: u32,
    pub(crate) case: Case,
    /// Indexed like [`SERVERS`]; empty series for servers that were not selected.
    pub(crate) series: Vec<Series>,
}

impl Row {
    pub(crate) fn new(place: &str, ranks: u32, case: Case) -> Self {
        let series = vec![Series::default(); SERVERS.len()];
        Row { place: place.into(), ranks, case, series }
    }

    fn pairs(&self) -> impl Iterator<Item = (&'static Server, &Series)> {
        SERVERS.iter().zip(&self.series)
    }

    /// The speed of the server `aggio` against the default of the same MPI.
    pub(crate) fn against_default(&self, aggio: usize) -> Option<Ratio> {
        let mpi = SERVERS[aggio].mpi;
        let mut natives = self.pairs().filter(|(server, _)| server.mpi == mpi);
        let (_, default) = natives.find(|(server, _)| server.is_default())?;
        self.series[aggio].speed_against(default)
    }

    /// The speed of the server `aggio` against the best of all native ones, under whichever MPI,
    /// and its name.
    pub(crate) fn against_best(&self, aggio: usize) -> Option<(Ratio, &'static str)> {
        let natives = self.pairs().filter(|(server, _)| !server.is_aggio());
        let ratios = natives.filter_map(|(server, series)| {
            Some((self.series[aggio].speed_against(series)?, server.name))
        });
        ratios.min_by(|(a, _), (b, _)| a.value.total_cmp(&b.value))
    }
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) rows: Vec<Row>,
}

impl Results {
    /// A line for each case that aggio did not serve.
    pub(crate) fn failures_of_aggio(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for row in &self.rows {
            for (server, series) in row.pairs().filter(|(server, _)| server.is_aggio()) {
                if let Some(failure) = &series.failure {
                    lines.push(format!(
                        "{} on {}, {} ranks, {}: {failure:?}",
                        row.case.label(),
                        row.place,
                        row.ranks,
                        server.mpi.name()
                    ));
                }
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(seconds: &[f64]) -> Series {
        let one = |(round, &seconds)| Measurement {
            round,
            seconds,
            limit: 1.0,
            hidden: None,
            requests: None,
        };
        Series { measurements: seconds.iter().enumerate().map(one).collect(), failure: None }
    }

    fn row(filled: &[(usize, Series)]) -> Row {
        let entry = aggio_patterns::Entry {
            name: "c".into(),
            pattern: "contiguous,bytes=8".parse().unwrap(),
        };
        let mut row = Row::new("here", 4, Case { method: "collective", operation: "write", entry });
        for (index, series) in filled {
            row.series[*index] = series.clone();
        }
        row
    }

    #[test]
    fn the_median_of_an_even_number_of_values_lies_between_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn ratios_compare_the_same_rounds() {
        let row = row(&[(0, series(&[1.0, 2.0, 4.0])), (1, series(&[3.0, 4.0, 12.0]))]);
        assert_eq!(row.against_default(0).unwrap().value, 3.0);
        assert_eq!(row.series[0].part_of_limit(), Some(0.5));
    }

    #[test]
    fn the_best_native_may_run_under_the_other_mpi() {
        let row = row(&[(0, series(&[1.0])), (1, series(&[3.0])), (5, series(&[2.0]))]);
        let (ratio, name) = row.against_best(0).unwrap();
        assert_eq!((ratio.value, name), (2.0, "romio-sieving"));
    }

    #[test]
    fn who_never_ended_counts_with_the_seconds_it_was_given() {
        let mut slow = series(&[]);
        slow.failure = Some(Failure::TimedOut(60));
        let row = row(&[(0, series(&[2.0])), (1, slow)]);
        assert_eq!(row.against_default(0), Some(Ratio { value: 30.0, at_least: true }));
    }

    #[test]
    fn who_failed_is_no_competitor() {
        let mut wrong = series(&[0.1]);
        wrong.failure = Some(Failure::Failed("wrong data".into()));
        let row = row(&[(0, series(&[2.0])), (1, wrong)]);
        assert_eq!(row.against_default(0), None);
        assert_eq!(row.against_best(0), None);
    }
}
