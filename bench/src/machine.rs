//! The facts about the machine that a reader needs: processor, kernel, versions, and its use by other processes.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

const VERSIONS: [(&str, &[&str]); 10] = [
    ("nginx", &["-v"]),
    ("haproxy", &["-v"]),
    ("varnishd", &["-V"]),
    ("traffic_server", &["--version"]),
    ("h2o", &["--version"]),
    ("lighttpd", &["-v"]),
    ("wrk", &["-v"]),
    ("h2load", &["--version"]),
    ("openssl", &["version"]),
    ("gcc", &["--version"]),
];

/// Processor, cores, kernel, versions and the revision of larder.
pub fn describe() -> Value {
    let versions: serde_json::Map<String, Value> = VERSIONS
        .iter()
        .map(|(program, argv)| {
            ((*program).to_owned(), first_line(program, argv).unwrap_or("absent".into()).into())
        })
        .collect();
    json!({
        "processor": processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        "congestion": fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default().trim(),
        "versions": versions,
        "revision": first_line("git", &["describe", "--always", "--dirty"]).unwrap_or("unknown".into()),
    })
}

fn processor(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|it| it.starts_with("model name")).unwrap_or_default();
    line.split_once(':').map_or("unknown", |(_, name)| name.trim()).to_owned()
}

fn first_line(program: &str, argv: &[&str]) -> Option<String> {
    let path = format!("{}:/usr/sbin:/usr/local/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(argv).env("PATH", path).output().ok()?;
    let all = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&all);
    text.lines().map(str::trim).find(|it| !it.is_empty()).map(str::to_owned)
}

/// CPU time of the machine and of this process, in ticks since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    busy: u64,
    all: u64,
    ours: u64,
}

impl Usage {
    /// Reads it; this process's time includes children that have ended.
    pub fn now() -> Usage {
        let (busy, all) = machine_in(&fs::read_to_string("/proc/stat").unwrap_or_default());
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Usage { busy, all, ours: crate::process::ticks_in(&stat).unwrap_or(0) }
    }

    /// The share of the machine that other processes used between `earlier` and this, from 0 to 1.
    #[allow(clippy::cast_precision_loss, reason = "ticks of an hour")]
    pub fn others_since(self, earlier: Usage) -> f64 {
        let busy = self.busy.saturating_sub(earlier.busy);
        let ours = self.ours.saturating_sub(earlier.ours);
        busy.saturating_sub(ours) as f64 / self.all.saturating_sub(earlier.all).max(1) as f64
    }
}

/// Busy and all ticks of the first line of `/proc/stat`. Idle time and waiting for disks are not busy.
fn machine_in(stat: &str) -> (u64, u64) {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_ascii_whitespace().skip(1).take(8).filter_map(|it| it.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    (all - idle, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_are_not_busy() {
        assert_eq!((16, 116), machine_in("cpu  1 2 3 90 10 3 3 4 9 9\ncpu0 1\n"));
        assert_eq!((0, 0), machine_in(""));
    }

    #[test]
    fn the_cpu_share_of_other_processes() {
        let earlier = Usage { busy: 100, all: 1000, ours: 50 };
        let later = Usage { busy: 200, all: 1200, ours: 110 };
        assert!((later.others_since(earlier) - 0.2).abs() < 1e-9);
        assert_eq!("AMD EPYC", processor("processor : 0\nmodel name\t: AMD EPYC\n"));
    }
}
