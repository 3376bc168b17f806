//! Hits at a fixed rate, whose times do not depend on answers: how long each took from the moment at which it was due.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::Duration;

use larder_stdx::clock::precise_micros;

use crate::fetch;

/// Connections, each with a request every [`EACH`] microseconds: 2,000 a second together.
pub const ASKERS: u64 = 20;
/// Microseconds between two requests of a connection.
const EACH: u64 = 10_000;

/// Microseconds of hits: the median, the 99th percentile and the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// The median.
    pub half: u64,
    /// The 99th percentile.
    pub most: u64,
    /// The longest.
    pub longest: u64,
}

/// Sends requests number 0, 1 … for `target` until `ended`, and records when each was due and how long it took from then
/// on.
pub fn send(
    port: u16,
    asker: u64,
    target: impl Fn(u64) -> String,
    seen: &Mutex<Vec<(u64, u64)>>,
    ended: &AtomicBool,
) {
    let Ok(mut stream) = fetch::connect(port) else { return };
    let _ = stream.set_nodelay(true);
    let (mut mine, mut number) = (Vec::new(), asker);
    let mut due = precise_micros() + asker * (EACH / ASKERS);
    while !ended.load(Relaxed) {
        sleep(Duration::from_micros(due.saturating_sub(precise_micros())));
        number += ASKERS;
        if fetch::get_target(&mut stream, "x", &target(number)).is_err() {
            break;
        }
        mine.push((due, precise_micros().saturating_sub(due)));
        due += EACH;
    }
    if let Ok(mut seen) = seen.lock() {
        seen.append(&mut mine);
    }
}

/// The figures of these times.
pub fn within(mut micros: Vec<u64>) -> Hits {
    micros.sort_unstable();
    let at = |part: usize| micros.get(micros.len().saturating_sub(1) * part / 100).copied().unwrap_or(0);
    Hits { half: at(50), most: at(99), longest: at(100) }
}
