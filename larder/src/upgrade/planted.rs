//! Faults that a test of an upgrade plants in either process. In debug builds only.

use std::time::Duration;

/// How long a process hangs: longer than any other waits for it.
const HANG: Duration = Duration::from_secs(120);

/// The fault that a test of an upgrade plants by the content of a file. In debug builds only.
pub fn plan() -> String {
    let file = std::env::var_os("LARDER_TEST_UPGRADE").filter(|_| cfg!(debug_assertions));
    file.and_then(|it| std::fs::read_to_string(it).ok()).unwrap_or_default()
}

/// Whether this process behaves as one of another version.
pub fn is_planted(version: &str) -> bool {
    plan() == version
}

/// A failure at a step of a test's plan.
pub fn planted(step: &str) {
    match plan().split_once(' ') {
        Some(("crash", at)) if at == step => std::process::abort(),
        Some(("hang", at)) if at == step => std::thread::sleep(HANG),
        _ => {}
    }
}
