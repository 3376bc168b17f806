//! The RAM tier over a restart and an upgrade. Over a restart: read before the workers start, so that no response is stored meanwhile, and written when they have
//! ended, so that no purge is acknowledged afterwards. The file is `larder_store::snapshot`.

use crate::upgrade::ram::RamSource;
use larder_config::Config;
use larder_observe::log::{ErrorLog, Level};
use larder_server::row_purges;
use larder_stdx::clock::{self, Monotonic};
use larder_stdx::error::plain;
use larder_store::Store;
use larder_store::snapshot::{SnapshotCount, file};
use std::path::Path;
use std::time::Duration;

/// The time limit for reading it: a slow device must not delay the start for longer. The rest is left out.
const READ: Duration = Duration::from_secs(20);
/// The time limit for writing it.
pub const WRITE: Duration = Duration::from_secs(20);

/// The other process that has the entries of the RAM tier now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RamHolder {
    /// None: the last one has written a snapshot, if it stopped cleanly.
    None,
    /// One that is replaced, and has handed it over if it could: a file is older than its start.
    Predecessor,
}

/// Why the RAM tier of a node in a fleet is not handed over.
pub const OF_FLEET: &str =
    "other nodes of the fleet may purge meanwhile; its servers have the responses, with the purges";

/// The most of the memory that is left on this machine, in quarters, that RAM may take while two processes serve.
const QUARTERS: u64 = 3;

fn is_over(begun: Monotonic, limit: Duration) -> bool {
    u128::from(clock::monotonic_now().0.saturating_sub(begun.0)) > limit.as_millis()
}

/// Fills RAM from the snapshot of the configuration, if there is one. Nothing is stored yet, and the disk tier is open.
///
/// # Errors
/// The reason why it is not used, which is logged.
pub fn restore(config: &Config, store: &Store, errors: &ErrorLog, holder: RamHolder) -> Result<(), String> {
    let restored = fill(config, store, errors, holder);
    // Databases are not followed since the last process ended: pages in RAM, on disk or in the fleet may be older than their rows.
    row_purges::doubt_restored(config, store);
    restored
}

fn fill(config: &Config, store: &Store, errors: &ErrorLog, holder: RamHolder) -> Result<(), String> {
    let Some(path) = &config.snapshot else { return Ok(()) };
    if holder == RamHolder::Predecessor {
        file::discard(path);
        return Ok(());
    }
    clock::tick();
    let begun = clock::monotonic_now();
    let outcome = match file::take(path) {
        Ok(None) => return Ok(()),
        Ok(Some(taken)) => {
            let late = || is_over(begun, READ);
            store.load_snapshot(&taken, config.key_settings, late).map_err(|it| it.sentence())
        }
        Err(why) => Err(why),
    };
    match outcome {
        Ok(count) => {
            done("ram-restored", path, count, begun, errors);
            Ok(())
        }
        Err(why) => {
            let name = path.display().to_string();
            let values = [("path", &*name), ("why", &*why), ("now", "the RAM tier starts empty")];
            errors.event(Level::Warn, "ram-not-restored", &values);
            Err(why)
        }
    }
}

/// Whether the process that this one replaces is to send its RAM tier; logs why not.
pub fn asks(config: &Config, errors: &ErrorLog) -> bool {
    if config.fleet.is_some() {
        not_handed_over(OF_FLEET, errors);
    }
    config.fleet.is_none()
}

/// Fills RAM with the responses of the process that this one replaces. Nothing is stored yet, and no purge is in force: those of
/// the switch are yet to come. Where it fails RAM is empty, and the log has the reason.
pub fn inherit(config: &Config, store: &Store, errors: &ErrorLog, source: &mut RamSource<'_>) {
    clock::tick();
    let begun = clock::monotonic_now();
    let most = larder_config::memory_left().map_or(u64::MAX, |it| it / 4 * QUARTERS);
    let arena = source.arena();
    let outcome = store.receive_ram(&mut *source, config.key_settings, arena, |copied| copied > most);
    match outcome {
        Ok(count) => {
            let (shared, version) = (count.shared.to_string(), count.version.number().to_string());
            counted("ram-handed-over", &[("version", &version), ("shared", &shared)], count, begun, errors);
        }
        // The sentence about its end is enough.
        Err(_) if source.has_ended() => {}
        Err(fault) => not_handed_over(&source.obstacle().unwrap_or_else(|| fault.sentence()), errors),
    }
}

fn not_handed_over(why: &str, errors: &ErrorLog) {
    let values = [("why", why), ("now", "the RAM tier starts empty")];
    errors.event(Level::Warn, "ram-not-handed-over", &values);
}

/// Writes the snapshot. No worker runs any more, and the caller acknowledges no purge from here on.
pub fn save(config: &Config, store: &Store, errors: &ErrorLog) {
    let Some(path) = &config.snapshot else { return };
    clock::tick();
    let begun = clock::monotonic_now();
    match store.save_snapshot(path, config.key_settings, || is_over(begun, WRITE)) {
        Ok(count) => done("ram-saved", path, count, begun, errors),
        Err(error) => not_saved(path, &plain(&error), errors),
    }
}

/// Logs why no snapshot is written.
pub fn not_saved(path: &Path, why: &str, errors: &ErrorLog) {
    let (name, now) = (path.display().to_string(), "the next start begins with an empty RAM tier");
    errors.event(Level::Warn, "ram-not-saved", &[("path", &*name), ("why", why), ("now", now)]);
}

/// Removes the file of a path that a reload has set: it is of an earlier process, and the purges since are unknown.
pub fn discard_old(before: &Config, now: &Config) {
    if let Some(path) = now.snapshot.as_deref().filter(|_| before.snapshot != now.snapshot) {
        file::discard(path);
    }
}

/// Logs the responses that were written to a file or read from it.
fn done(event: &str, path: &Path, count: SnapshotCount, begun: Monotonic, errors: &ErrorLog) {
    let name = path.display().to_string();
    counted(event, &[("path", &*name)], count, begun, errors);
}

fn counted(event: &str, first: &[(&str, &str)], count: SnapshotCount, begun: Monotonic, errors: &ErrorLog) {
    let milliseconds = clock::monotonic_now().0.saturating_sub(begun.0);
    let numbers = [count.responses, count.bytes, count.left_out, milliseconds].map(|it| it.to_string());
    let [responses, bytes, left_out, time] = numbers.each_ref().map(String::as_str);
    let rest = [("responses", responses), ("bytes", bytes), ("left_out", left_out), ("duration_ms", time)];
    errors.event(Level::Info, event, &[first, &rest].concat());
}
