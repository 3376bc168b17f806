//! The privileges of this process, as the kernel states them. All threads have the same: root is given up before there is a second one.

use rustix::process::{getegid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, SecureComputingMode, capabilities, no_new_privs, secure_computing_mode};
use std::sync::OnceLock;

/// The privileges of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessPrivileges {
    /// The number of its user.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
    /// The numbers of its supplementary groups.
    pub groups: Vec<u32>,
    /// The names of the capabilities that it has or may take, such as `net_bind_service`; see capabilities(7).
    pub capabilities: Vec<String>,
    /// Whether no program that it starts can have more privileges than it has.
    pub no_new_privileges: bool,
    /// Whether a filter decides about its system calls: that of `sandbox`, or of a service manager or container.
    pub system_call_filter: bool,
    /// The version of the interface by which Landlock restricts it to the paths of its configuration; `None` without such rules.
    /// The kernel does not state this itself.
    pub landlock: Option<u32>,
}

/// See [`ProcessPrivileges::landlock`].
static LANDLOCK: OnceLock<u32> = OnceLock::new();

/// Landlock restricts this process from now on, by this version of its interface.
pub fn restricted_by(abi: u32) {
    let _ = LANDLOCK.set(abi);
}

impl ProcessPrivileges {
    /// Those of now.
    #[must_use]
    pub fn now() -> Self {
        let permitted = capabilities(None).map_or(CapabilitySet::all(), |it| it.permitted);
        Self {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            groups: getgroups().unwrap_or_default().iter().map(|it| it.as_raw()).collect(),
            capabilities: permitted.iter_names().map(|it| it.0.to_lowercase()).collect(),
            no_new_privileges: no_new_privs().unwrap_or_default(),
            system_call_filter: secure_computing_mode().is_ok_and(|it| it == SecureComputingMode::Filter),
            landlock: LANDLOCK.get().copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_states_the_same() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let value =
            |name: &str| status.lines().find_map(|it| it.strip_prefix(name)).unwrap().trim().to_owned();
        let now = ProcessPrivileges::now();
        assert_eq!(value("Uid:").split_whitespace().nth(1).unwrap(), now.uid.to_string());
        assert_eq!(value("Gid:").split_whitespace().nth(1).unwrap(), now.gid.to_string());
        assert_eq!(value("NoNewPrivs:") == "1", now.no_new_privileges);
        assert_eq!(value("Seccomp:") == "2", now.system_call_filter);
        let permitted = u64::from_str_radix(&value("CapPrm:"), 16).unwrap();
        assert_eq!(permitted.count_ones() as usize, now.capabilities.len());
    }
}
