//! `larder bench tiers`: the three-way comparison of RAM over a fleet, the fleet alone, and no cache, measured on this
//! machine with this binary. It starts and stops the measured servers. The comparison of larder with other servers is in
//! the `bench` crate.

mod load;
mod parts;
mod report;

use crate::demo;
use load::MeasuredLoad;
use parts::{BenchLarder, BenchMemcached};
pub use report::{BenchReport, Cell, Mode};
use std::net::SocketAddr;
use std::time::Duration;

/// The pages that are requested in turn.
const PAGES: u32 = 100;

/// The settings of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchOptions {
    /// Memcached servers; if empty, one is started for the measurement.
    pub servers: Vec<String>,
    /// The time that the application behind larder takes for a page.
    pub page_time: Duration,
    /// The numbers of simultaneous connections, one cell of the table each.
    pub concurrency: Vec<usize>,
    /// The duration of one cell in each round.
    pub cell: Duration,
    /// Rounds; the modes take turns in each, so that a machine of varying speed is fair to all.
    pub rounds: u32,
}

impl Default for BenchOptions {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            page_time: Duration::from_millis(20),
            concurrency: vec![1, 5],
            cell: Duration::from_secs(1),
            rounds: 5,
        }
    }
}

/// Measures. `progress` gets one line for each step.
///
/// # Errors
/// One sentence: a server could not be started, or responded wrongly.
pub fn tiers(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<BenchReport, String> {
    let site = demo::start_with(options.page_time)
        .map_err(|it| format!("The demo site cannot be started: {it}."))?;
    let (started, servers) = match &options.servers[..] {
        [] => {
            let memcached = BenchMemcached::start()?;
            let server = memcached.address.to_string();
            (Some(memcached), vec![server])
        }
        given => {
            given.iter().try_for_each(|it| parts::answers(it))?;
            (None, given.to_vec())
        }
    };
    // Each mode has pages of its own in the fleet: none profits from another one's items.
    let larders: Vec<(Mode, BenchLarder)> = Mode::ALL
        .into_iter()
        .map(|mode| BenchLarder::start(&command(mode, site, &servers)).map(|it| (mode, it)))
        .collect::<Result<_, _>>()?;
    let mut cells: Vec<Cell> = Vec::new();
    for &concurrency in &options.concurrency {
        cells.extend(Mode::ALL.map(|mode| Cell { mode, concurrency, micros: Vec::new(), failed: 0 }));
    }
    for (mode, larder) in larders.iter().filter(|it| it.0 != Mode::NoCache) {
        progress(&format!("filling: {}", mode.name()));
        load::ask_each(larder.address, &pages())?;
    }
    for round in 1..=options.rounds {
        for cell in &mut cells {
            let Some((_, larder)) = larders.iter().find(|it| it.0 == cell.mode) else { continue };
            progress(&format!(
                "round {round} of {}: {}, concurrency {}",
                options.rounds,
                cell.mode.name(),
                cell.concurrency
            ));
            let MeasuredLoad { micros, failed } =
                load::measure(larder.address, &pages(), cell.concurrency, options.cell)?;
            cell.micros.extend(micros);
            cell.failed += failed;
        }
    }
    for it in &mut cells {
        it.micros.sort_unstable();
    }
    drop(started);
    Ok(BenchReport { page_time: options.page_time, servers: servers.len(), cells })
}

fn pages() -> Vec<String> {
    (1..=PAGES).map(|it| format!("/recipes/{it}")).collect()
}

/// The command line of one mode.
fn command(mode: Mode, site: SocketAddr, servers: &[String]) -> Vec<String> {
    let mut words: Vec<String> =
        ["proxy", "--listen", "127.0.0.1:0", "--workers", "1", "--admin", "off", "--error-log", "off"]
            .map(str::to_owned)
            .into();
    words.insert(1, format!("http://{site}"));
    let mut set = |key: &str, value: &str| words.extend(["--set".to_owned(), format!("{key}={value}")]);
    match mode {
        Mode::NoCache => set("cache.enabled", "false"),
        Mode::RamAndFleet | Mode::Fleet => {
            set("cache.default_ttl", "1h");
            set("cache.tiers", if mode == Mode::Fleet { "fleet" } else { "ram,fleet" });
            set("cache.fleet.servers", &servers.join(","));
            set("cache.fleet.key_prefix", &format!("bench-{}-{}", std::process::id(), mode as u8));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{self, Command};

    #[test]
    fn the_command_line_of_each_mode_is_one() {
        let servers = ["127.0.0.1:2".to_owned(), "127.0.0.1:3".to_owned()];
        for mode in Mode::ALL {
            let words = command(mode, SocketAddr::from(([127, 0, 0, 1], 1)), &servers);
            let parsed = cli::parse(words.iter().map(Into::into));
            let Ok(Command::Serve(plan)) = parsed else { panic!("{words:?}: {parsed:?}") };
            let loaded = plan.load().map(drop).map_err(|it| it.to_string());
            assert_eq!(Ok(()), loaded, "{words:?}");
        }
    }
}
