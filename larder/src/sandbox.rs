//! The restrictions of `sandbox`: system calls and paths, before a second thread exists. A kernel that lacks one of them is a warning.

use crate::landlock_rules::{self, PathRestriction};
use crate::privileges::PrivilegeChange;
use crate::seccomp;
use crate::upgrade::program;
use larder_config::Config;
use larder_config::plan::Plan;
use larder_config::service_user::Sandbox;
use larder_observe::log::{ErrorLog, Level};

/// The effect of `sandbox` at a start.
#[derive(Debug, PartialEq, Eq)]
pub struct SandboxEntry {
    /// The reason why the kernel filters no system calls, if it does not.
    unfiltered: Option<String>,
    paths: PathRestriction,
}

/// Restricts this process, if the configuration wants it. The new process of an upgrade has inherited its restrictions: further ones
/// would add up, and the kernel has a limit for them.
pub fn enter(config: &Config, plan: &Plan, change: &PrivilegeChange, replaces: bool) -> Option<SandboxEntry> {
    match config.sandbox {
        Sandbox::Auto if matches!(change, PrivilegeChange::Made(..)) => {}
        Sandbox::On if !replaces => {}
        Sandbox::Auto | Sandbox::On | Sandbox::Off => return None,
    }
    let paths = landlock_rules::restrict(config, plan, program::of_this_process());
    // Without it a process without privileges may have no filter.
    let unfiltered = match rustix::thread::set_no_new_privs(true) {
        Ok(()) => seccomp::refuse().err(),
        Err(error) => Some(larder_stdx::error::plain(&error.into())),
    };
    Some(SandboxEntry { unfiltered, paths })
}

impl SandboxEntry {
    /// Logs it.
    pub fn log(&self, errors: &ErrorLog) {
        let calls = if self.unfiltered.is_none() { "filtered" } else { "not filtered" };
        let paths = match &self.paths {
            PathRestriction::InForce(abi) => format!("those of the configuration (Landlock ABI {abi})"),
            PathRestriction::Unwanted(why) => format!("all: {why}"),
            PathRestriction::Missing(_) => "all".to_owned(),
        };
        errors.event(Level::Info, "sandboxed", &[("system_calls", calls), ("paths", &paths)]);
        let missing = |why: &str, now: &str| {
            errors.event(Level::Warn, "sandbox-missing", &[("why", why), ("now", now)]);
        };
        if let Some(why) = &self.unfiltered {
            missing(why, "larder serves without a filter of system calls");
        }
        if let PathRestriction::Missing(why) = &self.paths {
            missing(why, "larder serves without rules for paths");
        }
    }
}
