//! The test program of the protocol, h2spec, in its strict mode.

use super::origin;
use super::secure::larder;
use crate::harness::{Larder, TIMEOUT};
use std::process::Command;

/// Cases that it has.
const CASES: usize = 146;

#[test]
fn every_case_passes_over_tls() {
    let (_authority, larder) = larder(&origin());
    let report = told(&larder, &["-t", "-k"]);
    assert!(
        report.contains(&format!("{CASES} passed, 0 skipped, 0 failed")),
        "{}",
        failures(&report).join("\n")
    );
}

/// In clear text one case is not for us: who begins with what is no preface is taken for a client of HTTP/1.1, and told
/// in its language that this is none.
#[test]
fn every_case_but_one_passes() {
    let larder = Larder::before(&origin(), "");
    let report = told(&larder, &[]);
    let failed = failures(&report);
    let crosses: Vec<_> = failed.iter().filter(|it| it.contains('×')).collect();
    let is_only_the_preface = crosses.len() == 1 && crosses[0].contains("Sends invalid connection preface");
    assert!(
        is_only_the_preface && report.contains(&format!("{} passed", CASES - 1)),
        "{}",
        failed.join("\n")
    );
}

fn told(larder: &Larder, more: &[&str]) -> String {
    let (host, port) = (larder.address.ip().to_string(), larder.address.port().to_string());
    let wait = TIMEOUT.as_secs().to_string();
    let output = Command::new(program())
        .args(["--strict", "-h", &host, "-p", &port, "-o", &wait, "-P", "/page"])
        .args(more)
        .output()
        .expect("tests/install brings h2spec");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn failures(report: &str) -> Vec<&str> {
    report.lines().skip_while(|it| !it.starts_with("Failures")).collect()
}

/// Where `tests/install` put it.
fn program() -> std::path::PathBuf {
    let target = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/h2spec");
    if target.exists() { target } else { "h2spec".into() }
}
