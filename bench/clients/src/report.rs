//! The figures of a run.

use crate::PARTS_OF_A_SECOND;
use crate::load::{Counted, PROTOCOLS};
use crate::probe::Probe;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// An upgrade: from the command to its success, since the beginning of the load.
#[derive(Clone, Copy, Debug)]
pub struct Upgrade {
    pub from: Duration,
    pub to: Duration,
}

/// Everything that was seen.
pub struct Seen<'s> {
    pub counted: &'s Counted,
    /// Requests that reached the application, in milliseconds since the beginning.
    pub misses: Vec<u32>,
    pub probes: Vec<Probe>,
    pub upgrades: Vec<Upgrade>,
    pub reloads: u32,
    pub lasted: Duration,
    pub log: String,
}

/// Before a switch and after it: new connections within this time are of the upgrade.
const AROUND: Duration = Duration::from_millis(500);

/// The steps around a switch for which the wait is given.
const STEP: Duration = Duration::from_millis(10);
const BEFORE: u32 = 10;
const AFTER: u32 = 10;

pub fn print(seen: &Seen<'_>) {
    let failures = seen.counted.failures.lock().map_or_else(|_| Vec::new(), |it| it.clone());
    println!(
        "{:.0} s, {} upgrades, {} reloads",
        seen.lasted.as_secs_f64(),
        seen.upgrades.len(),
        seen.reloads
    );
    for (at, protocol) in PROTOCOLS.iter().enumerate() {
        let failed = failures.iter().filter(|it| it.1.starts_with(&format!("{protocol}: "))).count();
        let (requests, connections) =
            (seen.counted.succeeded[at].load(Relaxed), seen.counted.connections[at].load(Relaxed));
        println!("{protocol}: {requests} requests succeeded, {failed} failed, {connections} connections");
    }
    println!("all: {} requests", seen.counted.requests());
    println!("handshakes of HTTP/3 that failed: {}", seen.counted.failed_handshakes.load(Relaxed));
    println!("streams that met a GOAWAY and were sent again: {}", seen.counted.unprocessed.load(Relaxed));
    for (at, sentence) in failures.iter().take(20) {
        let near = seen.upgrades.iter().map(|it| i128::from(*at) - it.to.as_millis() as i128);
        let near = near.min_by_key(|it| it.abs()).unwrap_or_default();
        println!("  failed at {at} ms, {near} ms after a switch: {sentence}");
    }
    hit_ratio(seen);
    pauses(seen);
    let lines = |what: &str| seen.log.lines().filter(|it| it.contains(what)).count();
    println!(
        "log: {} x ram-handed-over ({} version=1, {} version=2), {} x ram-not-handed-over",
        lines("ram-handed-over"),
        lines("ram-handed-over version=1"),
        lines("ram-handed-over version=2"),
        lines("ram-not-handed-over"),
    );
}

/// Of each upgrade: requests to the application from its beginning to that of the next one, within the requests of the second around the switch.
#[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn hit_ratio(seen: &Seen<'_>) {
    let requests = seen.counted.requests();
    println!("requests to the application: {} of {requests}", seen.misses.len());
    let mut dips: Vec<(f64, usize, u64)> = Vec::new();
    for (at, upgrade) in seen.upgrades.iter().enumerate() {
        let end = seen.upgrades.get(at + 1).map_or(seen.lasted, |it| it.from);
        let of_it = upgrade.from.as_millis()..end.as_millis();
        let misses = seen.misses.iter().filter(|it| of_it.contains(&u128::from(**it))).count();
        let part = |it: Duration| (it.as_millis() / u128::from(PARTS_OF_A_SECOND)) as usize;
        let second = part(upgrade.to.saturating_sub(AROUND))..part(upgrade.to + AROUND);
        let served: u64 = seen.counted.parts[second].iter().map(|it| u64::from(it.load(Relaxed))).sum();
        dips.push((100.0 * misses as f64 / served.max(1) as f64, misses, served));
    }
    dips.sort_by(|one, other| other.0.total_cmp(&one.0));
    if let Some((dip, misses, served)) = dips.first() {
        println!("largest dip of the hit ratio: {dip:.4} points ({misses} of {served} within its second)");
        println!("upgrades with any: {}", dips.iter().filter(|it| it.1 > 0).count());
    }
}

/// The longest wait of new connections in the second around each switch, and in a second halfway to the next one.
fn pauses(seen: &Seen<'_>) {
    let failed = seen.probes.iter().filter(|it| it.waited.is_none()).count();
    println!("new connections: {}, failed {failed}", seen.probes.len());
    let longest_within = |from: Duration, to: Duration| {
        let first = seen.probes.partition_point(|it| it.at < from);
        let within = seen.probes[first..].iter().take_while(|it| it.at < to);
        within.filter_map(|it| it.waited).max().unwrap_or_default()
    };
    let longest = |around: Duration| longest_within(around.saturating_sub(AROUND), around + AROUND);
    let switches: Vec<Duration> = seen.upgrades.iter().map(|it| it.to).collect();
    let steps = (0..BEFORE + AFTER).map(|step| {
        let all = switches.iter().map(|switch| {
            let from = (*switch + STEP * step).saturating_sub(STEP * BEFORE);
            longest_within(from, from + STEP).as_secs_f64() * 1000.0
        });
        format!("{:.1}", quantile(&sorted(all), 0.5))
    });
    println!(
        "median of the longest wait in each {} ms, from {} before the switch to {} after it: {}",
        STEP.as_millis(),
        (STEP * BEFORE).as_millis(),
        (STEP * AFTER).as_millis(),
        steps.collect::<Vec<_>>().join(" ")
    );
    let starts: Vec<Duration> = seen.upgrades.iter().map(|it| it.from).collect();
    let ends = starts.iter().skip(1).copied().chain([seen.lasted]);
    let between: Vec<Duration> = switches.iter().zip(ends).map(|(one, end)| (*one + end) / 2).collect();
    for (what, times) in
        [("at the switches", switches), ("at their commands", starts), ("between the upgrades", between)]
    {
        let all = sorted(times.iter().map(|it| longest(*it).as_secs_f64() * 1000.0));
        println!(
            "longest wait from connect to the first byte within a second {what}: median {:.1} ms, quartiles {:.1} and {:.1}, most {:.1}",
            quantile(&all, 0.5),
            quantile(&all, 0.25),
            quantile(&all, 0.75),
            quantile(&all, 1.0),
        );
    }
    let all = sorted(seen.probes.iter().filter_map(|it| it.waited).map(|it| it.as_secs_f64() * 1000.0));
    let [median, most_of_100, most_of_1000, most] = [0.5, 0.99, 0.999, 1.0].map(|it| quantile(&all, it));
    println!(
        "of all: median {median:.2} ms, 99 % {most_of_100:.1} ms, 99.9 % {most_of_1000:.1} ms, most {most:.1} ms"
    );
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all: Vec<f64> = numbers.collect();
    all.sort_by(f64::total_cmp);
    all
}

/// The number below which this part of the sorted numbers is.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = (sorted.len() as f64 * part) as usize;
    sorted.get(at).or(sorted.last()).copied().unwrap_or(0.0)
}
