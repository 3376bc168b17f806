//! One measured second or two: `wrk`, `h2load` where it is HTTP/2 or TLS, or the program of `http3/`, on the core of the load, and the
//! server's CPU time before and after.

use std::path::Path;
use std::process::Stdio;

use crate::process::{Cores, Running, pinned};

const REPORT: &str = include_str!("../load/report.lua");
const PIPELINE: &str = include_str!("../load/pipeline.lua");
const DISTINCT: &str = include_str!("../load/distinct.lua");

/// The pattern of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// One request after the other on connections that stay.
    KeepAlive,
    /// The same, and each request has a URL of its own.
    Distinct,
    /// Sixteen requests in one write.
    Pipelined,
    /// A connection for each request.
    Close,
    /// Ten streams at once on each connection of HTTP/2 in clear.
    Streams,
    /// The same by TLS.
    SealedStreams,
    /// One request after the other by TLS, HTTP/1.1.
    Sealed,
    /// Ten streams at once on each connection of HTTP/3.
    Datagrams,
}

/// The load generator for HTTP/3, in the folder of the run.
pub const HTTP3: &str = "http3-load";

/// The only offered suite, so that all servers encrypt alike.
const SUITE: &str = "TLS_AES_128_GCM_SHA256";

impl Manner {
    /// Whether it is by TLS.
    pub fn is_sealed(self) -> bool {
        matches!(self, Manner::SealedStreams | Manner::Sealed | Manner::Datagrams)
    }

    /// The HTTP version as `curl`'s option and in its report, where `wrk` is not known to support it; for HTTP/3, which `curl` may lack, that of
    /// the same address over TCP.
    pub fn version(self) -> Option<(&'static str, &'static str)> {
        match self {
            Manner::KeepAlive | Manner::Distinct | Manner::Pipelined | Manner::Close => None,
            Manner::Streams => Some(("--http2-prior-knowledge", "2")),
            Manner::SealedStreams | Manner::Datagrams => Some(("--http2", "2")),
            Manner::Sealed => Some(("--http1.1", "1.1")),
        }
    }
}

/// The result of one run of `wrk`, and its cost for the server.
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
    /// Median and 99th percentile of the latency, in microseconds; zeros where the generator does not report them.
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

/// Runs the load against `server` for `seconds` and counts.
///
/// # Errors
/// The load generator is missing or reports nothing.
pub fn measure(
    server: &Running,
    origin: Option<&Running>,
    manner: Manner,
    connections: u32,
    seconds: u32,
    nice: i32,
    dir: &Path,
) -> Result<Sample, String> {
    let argv = match manner.version() {
        _ if manner == Manner::Datagrams => {
            let numbers = [server.port.to_string(), connections.to_string(), seconds.to_string()];
            [dir.join(HTTP3).display().to_string()].into_iter().chain(numbers).collect()
        }
        Some(_) => h2load(server.port, manner, connections, seconds),
        None => wrk(server.port, manner, connections, seconds, dir)?,
    };
    let before = (server.cpu(), origin.map_or(0, Running::cpu));
    let output = pinned(Cores::Load, nice, &argv)
        .stderr(Stdio::piped())
        .output()
        .map_err(|it| format!("{} cannot be started: {it}", argv[0]))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let parsed = match manner.version() {
        Some(_) if manner != Manner::Datagrams => parse_h2load(&text, manner),
        _ => parse(&text),
    };
    let mut sample = parsed.ok_or_else(|| {
        let output = [&output.stderr[..], &output.stdout[..]].concat();
        format!("{}: {}", argv[0], String::from_utf8_lossy(&output).trim().replace('\n', " | "))
    })?;
    sample.cpu_ns = server.cpu().saturating_sub(before.0);
    sample.origin_ns = origin.map_or(0, Running::cpu).saturating_sub(before.1);
    Ok(sample)
}

fn wrk(port: u16, manner: Manner, connections: u32, seconds: u32, dir: &Path) -> Result<Vec<String>, String> {
    let script = dir.join(format!("{manner:?}.lua"));
    let requests = match manner {
        Manner::Pipelined => PIPELINE,
        Manner::Distinct => DISTINCT,
        _ => "",
    };
    std::fs::write(&script, format!("{requests}{REPORT}")).map_err(|it| it.to_string())?;
    let mut argv: Vec<String> = ["wrk", "--timeout", "10s", "-t", "1", "-c"].map(str::to_owned).to_vec();
    argv.extend([connections.to_string(), "-d".into(), seconds.to_string(), "-s".into()]);
    argv.push(script.display().to_string());
    if manner == Manner::Close {
        argv.extend(["-H".into(), "Connection: close".into()]);
    }
    argv.push(format!("http://127.0.0.1:{port}/page.html"));
    Ok(argv)
}

fn h2load(port: u16, manner: Manner, connections: u32, seconds: u32) -> Vec<String> {
    let streams = if manner == Manner::Sealed { "1" } else { "10" };
    let mut argv = vec!["h2load".to_owned(), format!("--tls13-ciphers={SUITE}"), "-t1".into(), "-m".into()];
    argv.extend([streams.to_owned(), "-c".into(), connections.to_string(), "-D".into(), seconds.to_string()]);
    argv.extend((manner == Manner::Sealed).then(|| "--h1".to_owned()));
    let scheme = if manner.is_sealed() { "https" } else { "http" };
    argv.push(format!("{scheme}://127.0.0.1:{port}/page.html"));
    argv
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

/// Parses the output of `h2load`, if it used the expected protocol.
fn parse_h2load(output: &str, manner: Manner) -> Option<Sample> {
    let after = |start: &str| output.lines().find_map(|it| it.strip_prefix(start)).map(str::trim);
    let expected = match manner {
        Manner::Streams => "h2c",
        Manner::SealedStreams => "h2",
        _ => "http/1.1",
    };
    if after("Application protocol:") != Some(expected)
        || manner.is_sealed() && after("Cipher:") != Some(SUITE)
    {
        return None;
    }
    let before = |line: &str, unit: &str| -> Option<u64> {
        line.split(',').find_map(|it| it.trim().strip_suffix(unit)?.trim().parse().ok())
    };
    let seconds = after("finished in ")?.split_once("s,")?.0.parse().ok()?;
    let (codes, requests) = (after("status codes:")?, after("requests:")?);
    let (good, moved) = (before(codes, "2xx")?, before(codes, "3xx")?);
    let bad = before(codes, "4xx")? + before(codes, "5xx")?;
    let (failed, errored) = (before(requests, "failed")?, before(requests, "errored")?);
    let bytes = after("traffic:")?.split_once('(')?.1.split_once(')')?.0.parse().ok()?;
    let errors = bad + failed.max(errored) + before(requests, "timeout")?;
    Some(Sample { requests: good + moved, seconds, bytes, errors, ..Sample::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_h2load_is_read() {
        let text = "starting benchmark...\nTLS Protocol: TLSv1.3\nCipher: TLS_AES_128_GCM_SHA256\nApplication protocol: h2\n\n\
            finished in 1.50s, 167500.00 req/s, 291.85MB/s\n\
            requests: 167510 total, 167700 started, 167510 done, 167500 succeeded, 10 failed, 7 errored, 2 timeout\n\
            status codes: 167500 2xx, 0 3xx, 1 4xx, 0 5xx\n\
            traffic: 291.85MB (306025160) total, 2.24MB (2347060) headers (space savings 91.99%), 286.73MB (300662500) data\n";
        let sample = parse_h2load(text, Manner::SealedStreams).unwrap();
        assert_eq!((167_500, 13, 306_025_160), (sample.requests, sample.errors, sample.bytes));
        assert!((sample.seconds - 1.5).abs() < 1e-9);
        assert_eq!(None, parse_h2load(text, Manner::Sealed), "another protocol");
        assert_eq!(None, parse_h2load(&text.replace("_128_", "_256_"), Manner::SealedStreams));
        assert!(parse_h2load(&text.replace(": h2", ": h2c"), Manner::Streams).is_some());
        assert_eq!(None, parse_h2load("", Manner::Streams));
    }

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
    fn output_without_a_result_is_no_sample() {
        assert_eq!(None, parse(""));
        assert_eq!(None, parse("RESULT 1 2 3\n"));
        assert_eq!(None, parse("RESULT a 2 3 4 5 6 7 8 9 10\n"));
    }
}
