//! The cost of a purge of a million responses: for the call, and for hits of other keys until the memory is freed. Hits
//! should not be affected; freeing may take its time.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{scope, sleep};
use std::time::Duration;

use larder_stdx::clock::precise_micros;
use serde_json::{Value, json};

use crate::fetch;
use crate::process::{Cores, Running, free_port};
use crate::run::Settings;
use crate::servers::Plan;
use crate::statistics::{Bound, Verdict};
use crate::steady::{self, ASKERS, Hits, within};

/// Bytes of a page.
const PAGE: usize = 700;
/// Other keys.
const OTHERS: u64 = 1000;
/// Connections that fill the cache.
const FILLERS: u64 = 32;
/// How long hits are observed before the purge: about as long as the sweep takes, since the longest of many is longer
/// than of few.
const BEFORE: Duration = Duration::from_secs(30);
/// Quarters of a second until the memory must be freed.
const TIMEOUT: u32 = 4 * 180;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Purged {
    /// Responses under the tag.
    pub objects: u64,
    /// Milliseconds of the call.
    pub call: f64,
    /// Hits of other keys before it.
    pub before: Hits,
    /// And from the call until the memory was freed.
    pub during: Hits,
    /// Seconds until nine tenths of the memory were freed.
    pub back: f64,
    /// Seconds of CPU meanwhile, hits included.
    pub cpu: f64,
}

/// The longest that the call may take, milliseconds.
const CALL: Bound = Bound::AtMost(100.0);
/// How much longer 99 of 100 hits of other keys may take meanwhile.
const EFFECT: Bound = Bound::AtMost(1.2);
/// The longest of them, milliseconds.
const LONGEST: Bound = Bound::AtMost(10.0);

#[allow(clippy::cast_precision_loss, reason = "microseconds")]
impl Purged {
    /// The figures as lines of the table of targets.
    pub fn judged(seen: Option<&Purged>) -> Vec<(String, Bound, Option<f64>, Verdict)> {
        let ratio = |it: &Purged| it.during.most as f64 / it.before.most.max(1) as f64;
        let lines: [(&str, Bound, Option<f64>); 3] = [
            ("milliseconds of the call", CALL, seen.map(|it| it.call)),
            ("p99 of hits of other keys, until memory is back ÷ before", EFFECT, seen.map(ratio)),
            ("the longest of them, milliseconds", LONGEST, seen.map(|it| it.during.longest as f64 / 1000.0)),
        ];
        lines.map(|(what, bound, figure)| (what.to_owned(), bound, figure, bound.judge(figure))).into()
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let of = |it: &Hits| json!({ "p50_us": it.half, "p99_us": it.most, "longest_us": it.longest });
        json!({
            "objects": self.objects, "call_ms": self.call, "before": of(&self.before), "during": of(&self.during),
            "memory_back_s": self.back, "cpu_s": self.cpu,
        })
    }

    /// One line for a report.
    pub fn sentence(&self) -> String {
        let Purged { objects, call, before, during, back, cpu } = self;
        let of = |it: &Hits| format!("{} / {} / {} µs", it.half, it.most, it.longest);
        format!(
            "{objects} responses under one tag: the call took {call:.1} ms; hits of other keys (50 %, 99 %, longest) {} before, {} \
             until nine tenths of the memory were back after {back:.0} s; {cpu:.1} s of CPU meanwhile.",
            of(before),
            of(during),
        )
    }
}

/// Fills a larder with [`Settings::purged`] responses under one tag and some others, and purges the tag while the others
/// are requested.
///
/// # Errors
/// A part is missing, or an answer is wrong.
pub fn run(settings: &Settings) -> Result<Purged, String> {
    let root = settings.page(PAGE)?;
    let fresh = "Cache-Control: max-age=86400";
    let tagged = settings.origin(&[fresh, "Surrogate-Key: all"], &root)?;
    let others = settings.origin(&[fresh], &root)?;
    let admin = free_port().map_err(|it| it.to_string())?;
    let larder = start(settings, admin, (tagged.port, others.port))?;
    fill(larder.port, "/other/page.html?", OTHERS)?;
    let empty = larder.resident();
    fill(larder.port, "/page.html?", settings.purged)?;
    eprintln!("  million: filled");
    let filled = larder.resident();
    let (seen, ended) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    let (call, at, until, cpu) = scope(|scope| {
        for asker in 0..ASKERS {
            let (seen, ended, port) = (&seen, &ended, larder.port);
            let target = |it: u64| format!("/other/page.html?{}", it * 7919 % OTHERS);
            scope.spawn(move || steady::send(port, asker, target, seen, ended));
        }
        sleep(BEFORE);
        let (at, cpu) = (precise_micros(), larder.cpu());
        let purged = purge(admin);
        let call = precise_micros() - at;
        let mut left = TIMEOUT;
        while purged.is_ok() && larder.resident() > filled - filled.saturating_sub(empty) / 10 * 9 && left > 0
        {
            sleep(Duration::from_millis(250));
            left -= 1;
        }
        ended.store(true, Relaxed);
        purged.and(if left > 0 { Ok(()) } else { Err("the memory does not come back".to_owned()) })?;
        Ok::<_, String>((call, at, precise_micros(), larder.cpu() - cpu))
    })?;
    let seen = seen.into_inner().unwrap_or_default();
    let hits =
        |from: u64, to: u64| seen.iter().filter(|it| (from..to).contains(&it.0)).map(|it| it.1).collect();
    #[allow(clippy::cast_precision_loss, reason = "microseconds of minutes")]
    let of_million = |it: u64| it as f64 / 1e6;
    Ok(Purged {
        objects: settings.purged,
        call: of_million(call) * 1000.0,
        before: within(hits(0, at)),
        during: within(hits(at, until)),
        back: of_million(until - at),
        cpu: of_million(cpu) / 1000.0,
    })
}

fn start(settings: &Settings, admin: u16, (tagged, others): (u16, u16)) -> Result<Running, String> {
    let port = free_port().map_err(|it| it.to_string())?;
    let dir = settings.dir.join(format!("million-{port}"));
    let token = dir.join("token");
    let text = format!(
        "listen = [\"127.0.0.1:{port}\"]\nworkers = 1\n\n[admin]\nlisten = \"127.0.0.1:{admin}\"\ntoken_file = {token:?}\n\n\
         [cache.ram]\nsize = \"3GiB\"\n\n[log]\naccess = \"off\"\n\n[[site]]\nhosts = [\"*\"]\n\n\
         [[site.route]]\npath = \"/other/*\"\nproxy = {{ to = [\"http://127.0.0.1:{others}\"] }}\n\n\
         [[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"http://127.0.0.1:{tagged}\"] }}\n",
    );
    let files = vec![("larder.toml", text), ("token", TOKEN.to_owned())];
    Plan { files, ..Plan::default() }.write(&dir)?;
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).map_err(|it| it.to_string())?;
    let mut argv = vec![settings.ours.larder.display().to_string(), "run".to_owned(), "-c".to_owned()];
    argv.push(dir.join("larder.toml").display().to_string());
    Running::start(&argv, Cores::Server, settings.nice, port, &dir.join("log"))
}

fn fill(port: u16, prefix: &str, count: u64) -> Result<(), String> {
    let filler = |first: u64| {
        let mut stream = fetch::connect(port)?;
        (first..count)
            .step_by(usize::try_from(FILLERS).unwrap_or(1))
            .try_for_each(|it| fetch::get_target(&mut stream, "x", &format!("{prefix}{it}")).map(drop))
    };
    scope(|scope| {
        let all: Vec<_> = (0..FILLERS).map(|first| scope.spawn(move || filler(first))).collect();
        all.into_iter().try_for_each(|it| it.join().map_err(|_| "a filler ended early".to_owned())?)
    })
}

fn purge(admin: u16) -> Result<(), String> {
    let mut stream = TcpStream::connect(("127.0.0.1", admin)).map_err(|it| it.to_string())?;
    let body = r#"{"tag":"all"}"#;
    let request = format!(
        "POST /cache/purge HTTP/1.1\r\nHost: 127.0.0.1:{admin}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).map_err(|it| it.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|it| it.to_string())?;
    let done = answer.starts_with("HTTP/1.1 200");
    if done {
        Ok(())
    } else {
        Err(format!("the purge was answered {}", answer.lines().next().unwrap_or("not")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_figures_are_compared_with_their_targets() {
        assert_eq!(Hits { half: 50, most: 99, longest: 100 }, within((0..=100).collect()));
        assert_eq!(Hits::default(), within(Vec::new()));
        let before = Hits { half: 100, most: 200, longest: 900 };
        let during = Hits { half: 100, most: 260, longest: 11_000 };
        let seen = Purged { objects: 1, call: 1.0, before, during, back: 2.0, cpu: 3.0 };
        let verdicts: Vec<Verdict> = Purged::judged(Some(&seen)).into_iter().map(|it| it.3).collect();
        assert_eq!(vec![Verdict::Reached, Verdict::Missed, Verdict::Missed], verdicts);
        assert!(Purged::judged(None).iter().all(|it| it.3 == Verdict::NotMeasured));
    }
}
