//! One measured second or two: `wrk` on the core of the load, the server's CPU time before and after.

use std::path::Path;
use std::process::Stdio;

use crate::process::{Cores, Running, pinned};

const REPORT: &str = include_str!("../load/report.lua");
const PIPELINE: &str = include_str!("../load/pipeline.lua");

/// How the requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// One request after the other on connections that stay.
    KeepAlive,
    /// Sixteen requests in one write.
    Pipelined,
    /// A connection for each request.
    Close,
}

/// What one run of `wrk` told, and what it cost the server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Whole responses received.
    pub requests: u64,
    /// Duration of the run.
    pub seconds: f64,
    /// Bytes received.
    pub bytes: u64,
    /// Failed connects, reads and writes, timeouts, and responses other than 2xx and 3xx.
    pub errors: u64,
    /// The server's CPU time.
    pub cpu_ns: u64,
    /// The origin's CPU time, where there is an origin.
    pub origin_ns: u64,
    /// Median and 99th percentile of the latency, in microseconds.
    pub latency_us: (u64, u64),
}

impl Sample {
    /// Server CPU per request, in microseconds; not a number where nothing was answered.
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn cpu_us(&self) -> f64 {
        self.cpu_ns as f64 / 1000.0 / self.requests as f64
    }

    /// Origin CPU per request, in microseconds.
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn origin_us(&self) -> f64 {
        self.origin_ns as f64 / 1000.0 / self.requests as f64
    }

    /// Requests per second.
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds
    }
}

/// Runs `wrk` against `server` for `seconds` and counts.
///
/// # Errors
/// Where `wrk` is missing or tells nothing.
pub fn measure(
    server: &Running,
    origin: Option<&Running>,
    manner: Manner,
    connections: u32,
    seconds: u32,
    nice: i32,
    dir: &Path,
) -> Result<Sample, String> {
    let script = dir.join(format!("{manner:?}.lua"));
    let text = if manner == Manner::Pipelined { format!("{PIPELINE}{REPORT}") } else { REPORT.to_owned() };
    std::fs::write(&script, text).map_err(|it| it.to_string())?;
    let mut argv: Vec<String> = ["wrk", "--timeout", "10s", "-t", "1", "-c"].map(str::to_owned).to_vec();
    argv.extend([connections.to_string(), "-d".into(), seconds.to_string(), "-s".into()]);
    argv.push(script.display().to_string());
    if manner == Manner::Close {
        argv.extend(["-H".into(), "Connection: close".into()]);
    }
    argv.push(format!("http://127.0.0.1:{}/page.html", server.port));
    let before = (server.cpu(), origin.map_or(0, Running::cpu));
    let output = pinned(Cores::Load, nice, &argv)
        .stderr(Stdio::piped())
        .output()
        .map_err(|it| format!("wrk cannot be started: {it}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut sample = parse(&text).ok_or_else(|| {
        format!("wrk: {}", String::from_utf8_lossy(&output.stderr).trim().replace('\n', " | "))
    })?;
    sample.cpu_ns = server.cpu().saturating_sub(before.0);
    sample.origin_ns = origin.map_or(0, Running::cpu).saturating_sub(before.1);
    Ok(sample)
}

/// Runs `wrk` on these targets in turn, from `connections` connections; without CPU times.
///
/// # Errors
/// As [`measure`].
pub fn measure_targets(
    port: u16,
    targets: &[String],
    connections: u32,
    seconds: u32,
    nice: i32,
    script: &Path,
) -> Result<Sample, String> {
    let list: Vec<String> = targets.iter().map(|it| format!("{it:?}")).collect();
    let text = format!(
        "local targets, at = {{ {} }}, 0\nrequest = function()\n  at = at % #targets + 1\n  \
         return wrk.format(\"GET\", targets[at])\nend\n{REPORT}",
        list.join(", ")
    );
    std::fs::write(script, text).map_err(|it| it.to_string())?;
    let mut argv: Vec<String> = ["wrk", "--timeout", "10s", "-t", "1", "-c"].map(str::to_owned).to_vec();
    argv.extend([connections.to_string(), "-d".into(), seconds.to_string(), "-s".into()]);
    argv.extend([script.display().to_string(), format!("http://127.0.0.1:{port}/")]);
    let output = pinned(Cores::Load, nice, &argv)
        .stderr(Stdio::piped())
        .output()
        .map_err(|it| format!("wrk cannot be started: {it}"))?;
    parse(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| "wrk told nothing".to_owned())
}

/// Reads the line that `report.lua` prints.
fn parse(output: &str) -> Option<Sample> {
    let line = output.lines().find_map(|it| it.strip_prefix("RESULT "))?;
    let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    let &[requests, micros, bytes, connect, read, write, status, timeout, p50, p99] = numbers.as_slice()
    else {
        return None;
    };
    Some(Sample {
        requests,
        #[allow(clippy::cast_precision_loss, reason = "a few seconds")]
        seconds: micros as f64 / 1e6,
        bytes,
        errors: connect + read + write + status + timeout,
        cpu_ns: 0,
        origin_ns: 0,
        latency_us: (p50, p99),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_report_is_read() {
        let text = "Running 2s test @ http://127.0.0.1:1/\nRESULT 1000 2000000 5000 1 2 3 4 5 130 900\n";
        let sample = parse(text).unwrap();
        assert_eq!((1000, 15, (130, 900)), (sample.requests, sample.errors, sample.latency_us));
        assert!((sample.rate() - 500.0).abs() < 1e-9);
        let sample = Sample { cpu_ns: 5_000_000, ..sample };
        assert!((sample.cpu_us() - 5.0).abs() < 1e-9);
    }

    #[test]
    fn anything_else_is_no_sample() {
        assert_eq!(None, parse(""));
        assert_eq!(None, parse("RESULT 1 2 3\n"));
        assert_eq!(None, parse("RESULT a 2 3 4 5 6 7 8 9 10\n"));
    }
}
