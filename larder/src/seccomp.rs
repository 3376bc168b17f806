//! The filter of system calls after root was given up: calls that no web server and no program of one needs, and that attacks on the
//! kernel begin with. Programs that larder starts inherit it.

use larder_stdx::error::plain;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};
use std::collections::BTreeMap;

/// Refused with EPERM, whatever their arguments.
const REFUSED: &[i64] = &[
    // Other processes and their memory.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    // The kernel and its parts.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_syslog,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_vhangup,
];

/// Those of x86 alone.
#[cfg(target_arch = "x86_64")]
const REFUSED_OF_MACHINE: &[i64] =
    &[libc::SYS_kexec_file_load, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_OF_MACHINE: &[i64] = &[];

/// The bit by which x86 marks calls of the x32 ABI, which have the same architecture for a filter.
const X32: i64 = 0x4000_0000;
/// The numbers of ptrace, kexec_load, process_vm_readv and process_vm_writev in that ABI.
const X32_NUMBERS: [i64; 4] = [521, 528, 539, 540];

/// Refuses the calls for this thread, and for all threads and programs that it starts.
///
/// # Errors
/// The reason why the kernel does not filter; nothing is refused then.
pub fn refuse() -> Result<(), String> {
    let (forbidden, absent) = filters().map_err(|it| sentence(&it))?;
    apply_filter(&absent).and_then(|()| apply_filter(&forbidden)).map_err(|it| sentence(&it))
}

fn sentence(error: &Error) -> String {
    match error {
        Error::Prctl(it) | Error::Seccomp(it) => plain(it),
        other => other.to_string(),
    }
}

/// Two programs, because each has one error: EPERM, and ENOSYS for a call in whose place the C library makes another one.
fn filters() -> Result<(BpfProgram, BpfProgram), Error> {
    let program = |rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32| -> Result<BpfProgram, Error> {
        let refusal = SeccompAction::Errno(error.unsigned_abs());
        let filter =
            SeccompFilter::new(rules, SeccompAction::Allow, refusal, std::env::consts::ARCH.try_into()?)?;
        Ok(filter.try_into()?)
    };
    let all = REFUSED.iter().chain(REFUSED_OF_MACHINE);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = all.clone().map(|it| (*it, Vec::new())).collect();
    // A new user namespace, in which a process has every capability.
    let flag = libc::CLONE_NEWUSER.unsigned_abs().into();
    let is_set = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(flag), flag)?;
    let namespace = vec![SeccompRule::new(vec![is_set])?];
    rules.insert(libc::SYS_clone, namespace.clone());
    // Its flags lie in memory, which a filter does not see.
    let mut absent = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    if cfg!(target_arch = "x86_64") {
        rules.extend(all.chain(&X32_NUMBERS).map(|it| (it | X32, Vec::new())));
        rules.insert(libc::SYS_clone | X32, namespace);
        absent.insert(libc::SYS_clone3 | X32, Vec::new());
    }
    Ok((program(rules, libc::EPERM)?, program(absent, libc::ENOSYS)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a system call without arguments.
    fn error_of(number: i64, first: libc::c_long) -> Option<i32> {
        // SAFETY: the filter refuses the call; without it the null pointers are rejected. A process of `clone` would go on as a copy
        // of this thread, and the assertion of the caller would fail in it.
        let result = unsafe { libc::syscall(number, first, 0, 0, 0, 0) };
        (result < 0).then(|| std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    #[test]
    fn attacks_are_refused_and_programs_still_start() {
        // The filter stays with its thread.
        let thread = std::thread::spawn(|| {
            refuse().unwrap();
            for number in
                [libc::SYS_ptrace, libc::SYS_bpf, libc::SYS_mount, libc::SYS_io_uring_setup, libc::SYS_keyctl]
            {
                assert_eq!(Some(libc::EPERM), error_of(number, 0), "{number}");
            }
            let flag = libc::c_long::from(libc::CLONE_NEWUSER);
            assert_eq!(Some(libc::EPERM), error_of(libc::SYS_unshare, flag));
            assert_eq!(
                Some(libc::EPERM),
                error_of(libc::SYS_clone, flag | libc::c_long::from(libc::SIGCHLD))
            );
            assert_eq!(Some(libc::ENOSYS), error_of(libc::SYS_clone3, 0));
            if cfg!(target_arch = "x86_64") {
                assert_eq!(Some(libc::EPERM), error_of(X32_NUMBERS[0] | X32, 0), "ptrace of x32");
                assert_eq!(Some(libc::EPERM), error_of(libc::SYS_unshare | X32, flag));
            }
            assert!(std::process::Command::new("true").status().unwrap().success());
            let inner = std::thread::spawn(|| error_of(libc::SYS_unshare, libc::CLONE_NEWUSER.into()));
            assert_eq!(Some(libc::EPERM), inner.join().unwrap());
        });
        thread.join().unwrap();
    }
}
