//! The command line of `larder bench`: the comparison, and its duration.

use super::{Given, Output, Usage};
use crate::bench::BenchOptions;
use larder_stdx::duration;
use std::time::Duration;

/// A measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bench {
    /// The settings.
    pub options: BenchOptions,
    /// Text or JSON.
    pub output: Output,
}

impl Bench {
    /// Parses the flags; `comparison` is the argument.
    pub(super) fn read(given: &Given, comparison: &str) -> Result<Self, Usage> {
        if comparison != "tiers" {
            return Err(Usage(format!("COMPARISON: found {comparison:?}; allowed: tiers")));
        }
        let values =
            |name: &'static str| given.own.iter().filter(move |it| it.0 == name).map(|it| it.1.as_str());
        let servers = values("server").map(str::to_owned).collect();
        let mut options = BenchOptions { servers, ..BenchOptions::default() };
        if let Some(text) = values("page-time").next_back() {
            options.page_time = time("--page-time", text, Duration::ZERO, Duration::from_secs(10))?;
        }
        if let Some(text) = values("time").next_back() {
            options.cell = time("--time", text, Duration::from_millis(50), Duration::from_secs(600))?;
        }
        if let Some(text) = values("rounds").next_back() {
            options.rounds = number("--rounds", text, 1000)?;
        }
        if let Some(text) = values("concurrency").next_back() {
            options.concurrency = text
                .split(',')
                .map(|it| number("--concurrency", it.trim(), 1000).map(|it| it as usize))
                .collect::<Result<_, _>>()?;
        }
        let output = if given.json { Output::Json } else { Output::Text };
        Ok(Self { options, output })
    }
}

fn time(flag: &str, text: &str, least: Duration, most: Duration) -> Result<Duration, Usage> {
    let found = duration::parse(text).ok().filter(|it| (least..=most).contains(it));
    found.ok_or_else(|| {
        Usage(format!(
            "{flag}: found {text:?}; allowed: a duration from {} to {}",
            duration::spell(least),
            duration::spell(most)
        ))
    })
}

fn number(flag: &str, text: &str, most: u32) -> Result<u32, Usage> {
    let found = text.parse().ok().filter(|it| (1..=most).contains(it));
    found.ok_or_else(|| Usage(format!("{flag}: found {text:?}; allowed: a number from 1 to {most}")))
}
