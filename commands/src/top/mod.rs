//! `larder top`: the activity of a running larder, in the terminal, updated each second. The layout is in `picture`;
//! counting is done there.

pub mod picture;

use crate::admin_client;
use crate::cli::{TopCommand, TopList};
use crate::terminal::{FullScreen, Screen};
use larder_transport::listener::Listen;
use picture::{Beat, COLUMNS, Picture, of_key};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::Read;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The result of one request.
pub struct TopReading {
    /// The statistics.
    pub stats: Value,
    /// Its list.
    pub list: TopList,
    /// The entries of the list.
    pub top: Value,
}

/// Shows the activity until a key or a signal ends it. If requested, or without a terminal, returns it as text once; otherwise the
/// text is empty.
///
/// # Errors
/// One sentence: no larder responds, or it stopped.
pub fn run(order: &TopCommand) -> Result<String, String> {
    let admin = admin_client::admin(order.admin.as_ref(), None)?;
    let screen = Screen::now();
    if order.once || !screen.is_terminal() {
        let reading = read(&admin, order.list)?;
        let beats = VecDeque::new();
        let picture = Picture {
            list: order.list,
            before: None,
            now: &reading,
            beats: &beats,
            trouble: None,
            interactive: false,
        };
        return Ok(picture.lines(screen).into_iter().map(|line| line + "\n").collect());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|it| format!("The runtime cannot be created: {it}."))?;
    let done = runtime.block_on(watch(admin, order));
    // The threads that read keys and send requests may block for long.
    runtime.shutdown_background();
    done.map(|()| String::new())
}

fn read(admin: &Listen, list: TopList) -> Result<TopReading, String> {
    let stats = admin_client::get(admin, "/api/v1/stats", TIMEOUT)?;
    let top = admin_client::get(
        admin,
        &format!("/api/v1/top?of={}&by={}&limit=100", list.of.name(), list.by.name()),
        TIMEOUT,
    )?;
    Ok(TopReading { stats, list, top })
}

async fn watch(admin: Listen, order: &TopCommand) -> Result<(), String> {
    let broken = |it: std::io::Error| format!("The signal handler cannot be installed: {it}.");
    let mut terminate = signal(SignalKind::terminate()).map_err(broken)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(broken)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(broken)?;
    let mut resized = signal(SignalKind::window_change()).map_err(broken)?;
    // Without a first response there is nothing to show.
    let mut shown = Shown::new(read(&admin, order.list)?);
    let mut keys = keys();
    let full = FullScreen::take();
    let mut list = order.list;
    let mut looking: Option<Looking> = None;
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.reset();
    loop {
        full.show(&shown.picture(list).lines(Screen::now()));
        let is_fresh = tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
            _ = resized.recv() => continue,
            key = keys.recv() => match key {
                // Ctrl-C and Ctrl-D arrive as keys here.
                None | Some(b'q' | b'Q' | 3 | 4) => return Ok(()),
                Some(key) => match of_key(key, list) {
                    Some(chosen) if chosen != list => { list = chosen; false }
                    _ => continue,
                },
            },
            Some((is_fresh, found)) = done(&mut looking) => {
                looking = None;
                shown.take(found, is_fresh);
                // A key was pressed meanwhile.
                if shown.now.list == list || shown.trouble.is_some() { continue }
                false
            }
            _ = tick.tick() => true,
        };
        if looking.is_none() {
            let named = order.admin.clone();
            // A restarted larder may listen elsewhere.
            let look = move || admin_client::admin(named.as_ref(), None).and_then(|it| read(&it, list));
            looking = Some(Looking { is_fresh, answer: tokio::task::spawn_blocking(look) });
        }
    }
}

/// A request in progress, so that keys are handled meanwhile.
struct Looking {
    /// Whether it is for a new second, not only for another list.
    is_fresh: bool,
    answer: JoinHandle<Result<TopReading, String>>,
}

/// Waits for the response; forever without a request.
async fn done(looking: &mut Option<Looking>) -> Option<(bool, Result<TopReading, String>)> {
    let Some(it) = looking else { return std::future::pending().await };
    let answer = (&mut it.answer).await.unwrap_or_else(|it| Err(format!("larder cannot be queried: {it}.")));
    Some((it.is_fresh, answer))
}

/// The content of the screen.
struct Shown {
    before: Option<TopReading>,
    now: TopReading,
    beats: VecDeque<Beat>,
    trouble: Option<String>,
}

impl Shown {
    fn new(now: TopReading) -> Self {
        Self { before: None, now, beats: VecDeque::new(), trouble: None }
    }

    fn picture(&self, list: TopList) -> Picture<'_> {
        Picture {
            list,
            before: self.before.as_ref(),
            now: &self.now,
            beats: &self.beats,
            trouble: self.trouble.as_deref(),
            interactive: true,
        }
    }

    fn take(&mut self, found: Result<TopReading, String>, is_fresh: bool) {
        let next = match found {
            Err(why) => {
                self.trouble = Some(why);
                return;
            }
            Ok(next) => next,
        };
        self.trouble = None;
        if !is_fresh {
            (self.now.top, self.now.list) = (next.top, next.list);
            return;
        }
        let before = std::mem::replace(&mut self.now, next);
        let up = |it: &TopReading| it.stats["uptime"].as_u64().unwrap_or(0);
        // The counters of a larder before a restart are not comparable.
        self.before = Some(before).filter(|it| up(it) <= up(&self.now));
        if self.before.is_some() {
            let beat = self.picture(self.now.list).beat();
            self.beats.push_back(beat);
        }
        if self.beats.len() > COLUMNS {
            self.beats.pop_front();
        }
    }
}

/// The pressed keys.
fn keys() -> mpsc::UnboundedReceiver<u8> {
    let (sender, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut key = [0];
        while std::io::stdin().lock().read(&mut key).is_ok_and(|it| it > 0) && sender.send(key[0]).is_ok() {}
    });
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_counters::top::{TopOrder, TopSubject};
    use serde_json::json;

    const URLS: TopList = TopList { of: TopSubject::Urls, by: TopOrder::Requests };

    fn reading(uptime: u64, requests: u64) -> TopReading {
        let stats =
            json!({ "uptime": uptime, "now_us": uptime * 1_000_000, "counters": { "requests": requests } });
        TopReading { stats, list: URLS, top: json!({ "total": requests }) }
    }

    #[test]
    fn top_continues_after_a_restart_of_larder() {
        let mut shown = Shown::new(reading(100, 50));
        let rates = |it: &Shown| it.beats.iter().map(|it| it.rate).collect::<Vec<_>>();
        shown.take(Ok(reading(102, 60)), true);
        assert_eq!((vec![5.0], None), (rates(&shown), shown.trouble.clone()));
        shown.take(Err("Nobody answers.".to_owned()), true);
        assert_eq!((vec![5.0], Some("Nobody answers.")), (rates(&shown), shown.trouble.as_deref()));
        // It was restarted: its sums are smaller, and no rate is known yet.
        shown.take(Ok(reading(1, 7)), true);
        assert!(shown.before.is_none() && shown.trouble.is_none());
        shown.take(Ok(reading(2, 9)), true);
        assert_eq!(vec![5.0, 2.0], rates(&shown));
    }

    #[test]
    fn a_change_of_the_order_is_not_a_new_second() {
        let mut shown = Shown::new(reading(100, 50));
        shown.take(
            Ok(TopReading { list: TopList { by: TopOrder::Bytes, ..URLS }, ..reading(101, 60) }),
            false,
        );
        assert_eq!(
            (0, TopOrder::Bytes, 100),
            (shown.beats.len(), shown.now.list.by, shown.now.stats["uptime"].as_u64().unwrap())
        );
    }
}
