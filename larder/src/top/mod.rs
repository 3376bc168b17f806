//! `larder top`: what a running larder does, in the terminal, anew each second. What is shown is in `picture`; what is
//! counted, is there.

pub mod picture;

use crate::ask;
use crate::cli::Top;
use crate::terminal::{Full, Screen};
use larder_counters::top::By;
use larder_transport::listener::Listen;
use picture::{Picture, of_key};
use serde_json::Value;
use std::io::Read;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What one look brings.
pub struct Reading {
    /// The statistics.
    pub stats: Value,
    /// The heaviest URLs.
    pub top: Value,
}

/// Shows until a key or a signal ends it; once where that is asked for, or where there is no terminal.
///
/// # Errors
/// One sentence: no larder answers, or it went away.
pub fn run(order: &Top) -> Result<(), String> {
    let admin = ask::admin(order.ask.as_ref(), None)?;
    let screen = Screen::now();
    if order.once || !screen.is_terminal() {
        let reading = read(&admin, order.by)?;
        let picture = Picture { order: order.by, before: None, now: &reading, interactive: false };
        for line in picture.lines(screen) {
            println!("{line}");
        }
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|it| format!("No runtime can be made: {it}."))?;
    let done = runtime.block_on(watch(&admin, order.by));
    // The thread that reads keys may wait for one for ever.
    runtime.shutdown_background();
    done
}

fn read(admin: &Listen, by: By) -> Result<Reading, String> {
    let stats = ask::get(admin, "/api/v1/stats", PATIENCE)?;
    let top = ask::get(admin, &format!("/api/v1/top?by={}&limit=100", by.name()), PATIENCE)?;
    Ok(Reading { stats, top })
}

async fn watch(admin: &Listen, mut by: By) -> Result<(), String> {
    let broken = |it: std::io::Error| format!("Signals cannot be waited for: {it}.");
    let mut terminate = signal(SignalKind::terminate()).map_err(broken)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(broken)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(broken)?;
    let mut resized = signal(SignalKind::window_change()).map_err(broken)?;
    let mut keys = keys();
    let mut before: Option<Reading> = None;
    let mut now = read(admin, by)?;
    let full = Full::take();
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.reset();
    loop {
        let picture = Picture { order: by, before: before.as_ref(), now: &now, interactive: true };
        full.show(&picture.lines(Screen::now()));
        let fresh = tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
            _ = resized.recv() => continue,
            key = keys.recv() => match key {
                // Ctrl-C and Ctrl-D come as keys here.
                None | Some(b'q' | b'Q' | 3 | 4) => return Ok(()),
                Some(key) => match of_key(key) {
                    Some(chosen) if chosen != by => { by = chosen; false }
                    _ => continue,
                },
            },
            _ = tick.tick() => true,
        };
        let next = read(admin, by)?;
        match fresh {
            true => before = Some(std::mem::replace(&mut now, next)),
            false => now.top = next.top,
        }
    }
}

/// The keys that are pressed.
fn keys() -> mpsc::UnboundedReceiver<u8> {
    let (sender, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut key = [0];
        while std::io::stdin().lock().read(&mut key).is_ok_and(|it| it > 0) && sender.send(key[0]).is_ok() {}
    });
    keys
}
