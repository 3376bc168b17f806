//! The command line of `larder trace`: recording and plotting.

use super::{AdminTarget, Given, Usage};
use larder_stdx::duration;
use std::path::PathBuf;
use std::time::Duration;

/// The longest recording.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// An action of `larder trace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceCommand {
    /// `record`.
    Record(RecordTraces),
    /// `plot`.
    Plot(Plot),
}

/// Follows the traces of a running larder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordTraces {
    /// The name of a route, or `*`.
    pub route: String,
    /// The sampling rate during the recording; `None` keeps the current one.
    pub every: Option<u32>,
    /// The duration.
    pub time: Duration,
    /// The output file; `-` is standard output.
    pub out: PathBuf,
    /// The larder to contact; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

/// Plots a file of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plot {
    /// The file.
    pub file: PathBuf,
    /// The page; `-` is standard output.
    pub out: PathBuf,
}

impl TraceCommand {
    /// Parses the flags.
    pub(super) fn read(given: Given) -> Result<Self, Usage> {
        let value = |name: &str| given.own.iter().rev().find(|it| it.0 == name).map(|it| it.1.clone());
        let arguments: Vec<&str> = given.arguments.iter().map(String::as_str).collect();
        let only = |of: &str, names: &[&str]| match given.own.iter().find(|it| names.contains(&it.0)) {
            Some(it) => Err(Usage(format!("--{} is only valid with `larder trace {of}`", it.0))),
            None => Ok(()),
        };
        match arguments[..] {
            ["record"] => Ok(Self::Record(RecordTraces {
                route: value("route").unwrap_or_else(|| "*".to_owned()),
                every: value("every").map(|it| parse_sampling_interval(&it)).transpose()?,
                time: value("for").map_or(Ok(Duration::from_secs(30)), |it| time(&it))?,
                out: value("output").unwrap_or_else(|| "traces.jsonl".to_owned()).into(),
                admin: given.admin.clone(),
            })),
            ["plot", file] => {
                only("record", &["route", "every", "for"])?;
                let file = PathBuf::from(file);
                let out = value("output").map_or_else(|| file.with_extension("html"), PathBuf::from);
                if out == file {
                    return Err(Usage(format!("the plot would overwrite {}; choose another file with -o", file.display())));
                }
                Ok(Self::Plot(Plot { file, out }))
            }
            ["plot"] => Err(Usage("`larder trace plot` requires the FILE that `larder trace record` wrote".to_owned())),
            ["plot", _, more, ..] | ["record", more, ..] => {
                Err(Usage(format!("unexpected argument {more:?}; try `larder trace --help`")))
            }
            _ => Err(Usage(
                "`larder trace` requires an action: record, or plot FILE; for example `larder trace record --every \
                 100`"
                    .to_owned(),
            )),
        }
    }
}

fn parse_sampling_interval(text: &str) -> Result<u32, Usage> {
    let found = text.parse().ok().filter(|it| *it >= 1);
    found.ok_or_else(|| Usage(format!("--every: found {text:?}; allowed: a number from 1 to {}", u32::MAX)))
}

fn time(text: &str) -> Result<Duration, Usage> {
    let found = duration::parse(text).ok().filter(|it| (Duration::from_millis(1)..=LONGEST).contains(it));
    found.ok_or_else(|| {
        Usage(format!(
            "--for: found {text:?}{}; allowed: a duration from 1ms to {}",
            duration::without_unit(text),
            duration::spell(LONGEST)
        ))
    })
}
