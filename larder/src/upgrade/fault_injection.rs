//! Faults that a test of an upgrade injects into either process. In debug builds only.

use super::STARTED_BY;
use rustix::process::Pid;
use std::time::Duration;

/// How long a process hangs: longer than any other waits for it.
const HANG: Duration = Duration::from_secs(120);

/// The faults that a test of an upgrade injects by the content of a file. In debug builds only.
pub fn plan() -> String {
    let file = std::env::var_os("LARDER_TEST_UPGRADE").filter(|_| cfg!(debug_assertions));
    file.and_then(|it| std::fs::read_to_string(it).ok()).unwrap_or_default()
}

/// Whether this process behaves as one of another version.
pub fn behaves_as(version: &str) -> bool {
    plan() == version
}

/// Injects the faults that the plan of a test has at a step, one line each: a crash, a hang, or a wait for the end of the old process.
pub fn inject_fault(step: &str) {
    for line in plan().lines() {
        match line.split_once(' ') {
            Some(("crash", at)) if at == step => std::process::abort(),
            Some(("hang", at)) if at == step => std::thread::sleep(HANG),
            Some(("outlive", at)) if at == step => outlive(),
            _ => {}
        }
    }
}

/// Waits for the end of the process that this one is to replace.
fn outlive() {
    let other = std::env::var(STARTED_BY).ok().and_then(|it| it.parse().ok()).and_then(Pid::from_raw);
    let runs = || other.is_some() && rustix::process::getppid() == other;
    for _ in 0..HANG.as_millis() {
        if !runs() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
