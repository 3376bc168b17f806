//! The results as a table and as JSON. The measurement is not here.

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// One of the three modes that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// RAM in front of the fleet.
    RamAndFleet,
    /// Every request goes to the fleet.
    Fleet,
    /// Every request goes to the application.
    NoCache,
}

impl Mode {
    /// In the order of the table.
    pub const ALL: [Mode; 3] = [Mode::RamAndFleet, Mode::Fleet, Mode::NoCache];

    /// The name for display.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::RamAndFleet => "RAM + fleet",
            Mode::Fleet => "fleet only",
            Mode::NoCache => "no cache",
        }
    }
}

/// The times of one mode at one concurrency.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The mode.
    pub mode: Mode,
    /// The number of simultaneous connections.
    pub concurrency: usize,
    /// Microseconds from the request to the last byte of its response, sorted.
    pub micros: Vec<u32>,
    /// Missing or wrong responses.
    pub failed: u64,
}

/// The percentiles that are shown.
const PERCENTILES: [f64; 6] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// Up to this percentile the RAM tier must not be slower. Higher percentiles are due to the machine's scheduler.
const REGRESS_TO: f64 = 99.0;

impl Cell {
    fn percentile(&self, percent: f64) -> u32 {
        if self.micros.is_empty() {
            return 0;
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let rank = (self.micros.len() as f64 * percent / 100.0).ceil() as usize;
        self.micros[rank.clamp(1, self.micros.len()) - 1]
    }

    fn mean(&self) -> f64 {
        let sum: u64 = self.micros.iter().map(|it| u64::from(*it)).sum();
        #[allow(clippy::cast_precision_loss)]
        let (sum, count) = (sum as f64, self.micros.len().max(1) as f64);
        sum / count
    }
}

/// All results.
#[derive(Clone, Debug)]
pub struct BenchReport {
    /// The time that the application takes for a page.
    pub page_time: Duration,
    /// The number of memcached servers.
    pub servers: usize,
    /// One for each mode and concurrency.
    pub cells: Vec<Cell>,
}

impl BenchReport {
    /// The cells in which the RAM tier is slower: concurrency, percentile, and the two times.
    #[must_use]
    pub fn regressions(&self) -> Vec<(usize, u32, u32, u32)> {
        let mut found = Vec::new();
        for with in self.cells.iter().filter(|it| it.mode == Mode::RamAndFleet) {
            let same = |it: &&Cell| it.mode == Mode::Fleet && it.concurrency == with.concurrency;
            let Some(without) = self.cells.iter().find(same) else { continue };
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            for percent in 1..=REGRESS_TO as u32 {
                let (a, b) = (with.percentile(f64::from(percent)), without.percentile(f64::from(percent)));
                if a > b {
                    found.push((with.concurrency, percent, a, b));
                }
            }
        }
        found
    }

    /// Missing or wrong responses.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.cells.iter().map(|it| it.failed).sum()
    }

    /// The results as text.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!(
            "The origin takes {} ms per page, {} memcached server(s); microseconds from the request to the last \
             byte.\n\n",
            self.page_time.as_millis(),
            self.servers
        );
        let _ = write!(out, "{:<14}{:>12}{:>11}{:>10}", "", "concurrency", "requests", "mean");
        for it in PERCENTILES {
            let _ = write!(out, "{:>9}", format!("p{it}"));
        }
        out.push('\n');
        for it in &self.cells {
            let _ = write!(
                out,
                "{:<14}{:>12}{:>11}{:>10.1}",
                it.mode.name(),
                it.concurrency,
                it.micros.len(),
                it.mean()
            );
            for percent in PERCENTILES {
                let _ = write!(out, "{:>9}", it.percentile(percent));
            }
            out.push('\n');
        }
        out.push('\n');
        match &self.regressions()[..] {
            [] => out.push_str(
                "RAM + fleet is not slower than the fleet alone at any percentile from p1 to p99.\n",
            ),
            found => {
                for (concurrency, percent, a, b) in found {
                    let _ = writeln!(
                        out,
                        "RAM + fleet is slower at concurrency {concurrency}, p{percent}: {a} µs, the fleet alone {b} µs."
                    );
                }
            }
        }
        if self.failed() > 0 {
            let _ = writeln!(out, "{} responses were wrong or missing.", self.failed());
        }
        out
    }

    /// The results as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let cells: Vec<Value> = self
            .cells
            .iter()
            .map(|it| {
                let percentiles: serde_json::Map<String, Value> = PERCENTILES
                    .iter()
                    .map(|percent| (format!("p{percent}"), it.percentile(*percent).into()))
                    .collect();
                json!({
                    "mode": it.mode.name(), "concurrency": it.concurrency, "requests": it.micros.len(),
                    "failed": it.failed, "mean_micros": it.mean(), "micros": percentiles,
                })
            })
            .collect();
        json!({
            "version": 1, "page_millis": u64::try_from(self.page_time.as_millis()).unwrap_or(u64::MAX),
            "servers": self.servers, "cells": cells, "regressions": self.regressions().len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(mode: Mode, micros: Vec<u32>) -> Cell {
        Cell { mode, concurrency: 1, micros, failed: 0 }
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let it = cell(Mode::Fleet, (1..=200).collect());
        assert_eq!(
            [2, 100, 150, 198, 200],
            [1.0, 50.0, 75.0, 99.0, 100.0].map(|percent| it.percentile(percent))
        );
        assert!((it.mean() - 100.5).abs() < f64::EPSILON);
        assert_eq!(0, cell(Mode::Fleet, Vec::new()).percentile(50.0));
    }

    #[test]
    fn a_slower_percentile_is_a_regression() {
        let report = |with: Vec<u32>| BenchReport {
            page_time: Duration::ZERO,
            servers: 1,
            cells: vec![cell(Mode::RamAndFleet, with), cell(Mode::Fleet, (101..=200).collect())],
        };
        assert!(report((1..=100).collect()).regressions().is_empty());
        let mut tail: Vec<u32> = (1..=98).collect();
        tail.extend([500, 1000]);
        assert_eq!(vec![(1, 99, 500, 199)], report(tail.clone()).regressions());
        assert!(report(tail).table().contains("slower at concurrency 1, p99: 500 µs"));
        let mut last: Vec<u32> = (1..=99).collect();
        last.push(1000);
        assert!(report(last).regressions().is_empty(), "above p99 it is the machine");
    }
}
