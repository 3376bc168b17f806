//! `larder trace record`: follows the traces of a running larder for a time and writes them to a file.

use super::file;
use crate::admin_client::{self, ServerEvents, StreamRefusal};
use crate::cli::RecordTraces;
use larder_stdx::clock;
use larder_stdx::error::plain;
use larder_transport::listener::Listen;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The time limit of a request to the admin.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The interval of checks for the end of the time and for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);
/// The duration in seconds of a requested sampling rate, which is renewed: it remains in force that long if this process
/// dies.
const LEASE: u64 = 30;
/// The interval of renewals, microseconds: two may fail.
const RENEW: u64 = 10_000_000;

/// The result of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordSummary {
    /// Traces in the file.
    pub traces: u64,
    /// Lost traces.
    pub lost: u64,
}

impl RecordSummary {
    /// One sentence for display.
    #[must_use]
    pub fn render(&self, out: &Path) -> String {
        let Self { traces, lost } = self;
        let more = if *lost > 0 { format!("; {lost} more were dropped") } else { String::new() };
        if out == Path::new("-") {
            return format!("recorded {traces} traces{more}.");
        }
        let out = out.display();
        format!("recorded {traces} traces in {out}{more}; plot them with `larder trace plot {out}`.")
    }
}

/// Records until the time is over, Ctrl-C is pressed, or a signal arrives (SIGTERM, SIGHUP).
///
/// # Errors
/// One sentence: no larder responds, no route is traced there, or the file cannot be written.
pub fn run(order: &RecordTraces) -> Result<RecordSummary, String> {
    let admin = admin_client::admin(order.admin.as_ref(), None)?;
    let answer = admin_client::get(&admin, "/api/v1/traces?limit=1", TIMEOUT)?;
    let before = of_route(&answer["sampling"], &order.route)?;
    if order.every.is_none() && before.iter().all(|it| it.1 == 0) {
        return Err(format!(
            "No request of {} is traced; set a rate with --every N, or set site.route.trace.",
            order.route
        ));
    }
    let interrupted = interrupted();
    // The stream is opened before sampling is switched on, so that the first trace is not missed.
    let path = format!("/api/v1/traces/stream?route={}", encoded(&order.route));
    let events = follow(admin.clone(), path)?;
    let owner = format!("record-{}-{}", std::process::id(), clock::unix_micros(clock::precise_micros()));
    let rate = order.every.map(|every| HeldRate { admin: &admin, route: &order.route, every, owner });
    let mut sampling = match &rate {
        Some(it) => it.hold(LEASE)?["sampling"].take(),
        None => answer["sampling"].clone(),
    };
    // The durations of leases are not recorded.
    let rates = sampling.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
    rates.for_each(|it| it.retain(|name, _| matches!(name.as_str(), "route" | "every")));
    let cannot = |it: &std::io::Error| format!("{} cannot be written: {}.", order.out.display(), plain(it));
    let mut out = open(&order.out).map_err(|it| cannot(&it))?;
    let head = file::header(clock::unix_micros(clock::precise_micros()), &sampling);
    writeln!(out, "{head}").map_err(|it| cannot(&it))?;
    let end =
        clock::precise_micros().saturating_add(u64::try_from(order.time.as_micros()).unwrap_or(u64::MAX));
    let mut renew = clock::precise_micros() + RENEW;
    let mut summary = RecordSummary::default();
    while clock::precise_micros() < end && !interrupted.load(Relaxed) {
        if clock::precise_micros() >= renew {
            // A busy larder may not respond; its stream shows whether it has stopped.
            rate.iter().for_each(|it| drop(it.hold(LEASE)));
            renew = clock::precise_micros() + RENEW;
        }
        let line = match events.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {
                out.flush().map_err(|it| cannot(&it))?;
                continue;
            }
            Ok((name, data)) if name == "trace" => {
                summary.traces += 1;
                data
            }
            Ok((name, data)) if name == "lost" => {
                let value: Value = serde_json::from_str(&data).unwrap_or_default();
                let count = value["count"].as_u64().unwrap_or(0);
                summary.lost += count;
                file::lost(count)
            }
            Ok(_) => continue,
            Err(RecvTimeoutError::Disconnected) => {
                out.flush().map_err(|it| cannot(&it))?;
                let (count, path) = (summary.traces, order.out.display());
                return Err(format!("larder stopped during the recording; {count} traces are in {path}."));
            }
        };
        writeln!(out, "{line}").map_err(|it| cannot(&it))?;
    }
    out.flush().map_err(|it| cannot(&it))?;
    Ok(summary)
}

/// The most events that wait to be written: the server counts further ones.
const AHEAD: usize = 256;

/// Follows a stream on a thread of its own, so that the end of the time is not missed while no event arrives. Returns
/// once the stream is open.
fn follow(admin: Listen, path: String) -> Result<Receiver<(String, String)>, String> {
    let (begun, has_begun) = mpsc::sync_channel(1);
    let (send, events) = mpsc::sync_channel(AHEAD);
    std::thread::spawn(move || {
        let mut from = match ServerEvents::open(&admin, &path) {
            Ok(from) => from,
            Err(refused) => return drop(begun.send(Err(refused))),
        };
        let _ = begun.send(Ok(()));
        while let Some(event) = from.next_event() {
            if send.send(event).is_err() {
                return;
            }
        }
    });
    match has_begun.recv() {
        Ok(Ok(())) => Ok(events),
        Ok(Err(StreamRefusal::Asked(why) | StreamRefusal::Other(why))) => Err(why),
        Err(_) => Err("The stream of traces cannot be read.".to_owned()),
    }
}

/// The rates of the routes of this name, or of all.
fn of_route(sampling: &Value, route: &str) -> Result<Vec<(String, u64)>, String> {
    let rate = |it: &Value| Some((it["route"].as_str()?.to_owned(), it["every"].as_u64()?));
    let all: Vec<(String, u64)> = sampling.as_array().into_iter().flatten().filter_map(rate).collect();
    let of: Vec<(String, u64)> = all.iter().filter(|it| route == "*" || it.0 == route).cloned().collect();
    if of.is_empty() {
        let names: Vec<&str> = all.iter().map(|it| it.0.as_str()).collect();
        return Err(format!("Unknown route {route:?}; the routes are {}.", names.join(", ")));
    }
    Ok(of)
}

/// A sampling rate that is requested for a time, and renewed; ended with the recording, and by itself if that was killed.
/// Other recorders of the route have their own.
struct HeldRate<'a> {
    admin: &'a Listen,
    route: &'a str,
    every: u32,
    /// A name that differs from all other recordings.
    owner: String,
}

impl HeldRate<'_> {
    fn hold(&self, seconds: u64) -> Result<Value, String> {
        let body = json!({ "route": self.route, "every": self.every, "for": seconds, "owner": self.owner });
        admin_client::put(self.admin, "/api/v1/traces/sampling", &body, TIMEOUT)
    }
}

impl Drop for HeldRate<'_> {
    /// Without a response the rate ends by itself.
    fn drop(&mut self) {
        let _ = self.hold(0);
    }
}

fn open(path: &Path) -> std::io::Result<BufWriter<Box<dyn Write>>> {
    let out: Box<dyn Write> =
        if path == Path::new("-") { Box::new(std::io::stdout()) } else { Box::new(File::create(path)?) };
    Ok(BufWriter::new(out))
}

/// Becomes true when Ctrl-C is pressed or a signal to end arrives; never if signals cannot be handled. From its return on
/// no such signal ends the process.
fn interrupted() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return flag };
    let within = runtime.enter();
    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    drop(within);
    for mut it in signals.into_iter().flatten() {
        let (seen, handle) = (flag.clone(), runtime.handle().clone());
        handle.spawn(async move {
            it.recv().await;
            seen.store(true, Relaxed);
        });
    }
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    flag
}

/// A value of a query.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for it in text.bytes() {
        if it.is_ascii_alphanumeric() || b"-._~".contains(&it) {
            out.push(char::from(it));
        } else {
            out.push_str(&format!("%{it:02X}"));
        }
    }
    out
}
