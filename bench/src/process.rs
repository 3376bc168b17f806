//! A server under measurement: started on one core, its CPU time and memory read, ended by its id.
//!
//! All numbers come from `/proc` and cover the process, its threads and its descendants. `servers` has the command lines.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The cores on which a process may run, in the form of `taskset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// The core of the servers that are measured.
    Server,
    /// The core of the load generator and of the origins.
    Load,
    /// The cores of the servers and of the load.
    Both,
}

impl Cores {
    /// The list for `taskset -c`.
    pub fn list(self) -> &'static str {
        match self {
            Cores::Server => "0",
            Cores::Load => "1",
            Cores::Both => "0,1",
        }
    }
}

/// A command line that runs `argv` on `cores` and ends with this process. Every wrapper replaces itself, so the process
/// id stays that of the server.
pub fn pinned(cores: Cores, nice: i32, argv: &[String]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "taskset", "-c", cores.list()]);
    command.args(["nice", "-n", &nice.to_string()]).args(argv).stdin(Stdio::null());
    command
}

/// A started server; ended when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
}

/// Steps of 25 ms that a server has to begin to listen: 15 s.
const TIMEOUT: u32 = 600;

impl Running {
    /// Starts `argv` and waits until `port` accepts; its output goes to `log`.
    ///
    /// # Errors
    /// Where it cannot be started, ends by itself, or does not listen in time; with the end of its log.
    pub fn start(argv: &[String], cores: Cores, nice: i32, port: u16, log: &Path) -> Result<Running, String> {
        let output = File::create(log).map_err(|it| it.to_string())?;
        let errors = output.try_clone().map_err(|it| it.to_string())?;
        let child =
            pinned(cores, nice, argv).stdout(output).stderr(errors).spawn().map_err(|it| {
                format!("setpriv, taskset and nice are needed (util-linux, coreutils): {it}")
            })?;
        let mut running = Running { child, port };
        for _ in 0..TIMEOUT {
            if TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_ok() {
                return Ok(running);
            }
            if let Ok(Some(status)) = running.child.try_wait() {
                return Err(format!("ended with {status}: {}", last_words(log)));
            }
            sleep(Duration::from_millis(25));
        }
        Err(format!("does not listen: {}", last_words(log)))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        end(self.child.id(), signal);
    }

    /// CPU time used so far, in nanoseconds, by the process and its descendants.
    pub fn cpu(&self) -> u64 {
        family(self.child.id()).into_iter().map(cpu_of).sum()
    }

    /// Resident bytes of the process and its descendants.
    pub fn resident(&self) -> u64 {
        let status = |id| fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        family(self.child.id()).into_iter().map(|id| resident_in(&status(id))).sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let all = family(self.child.id());
        end(self.child.id(), Signal::TERM);
        for _ in 0..120 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            sleep(Duration::from_millis(25));
        }
        // Only ids that still belong to the started family: one may have been reused since.
        for id in family(self.child.id()).into_iter().filter(|id| all.contains(id)) {
            end(id, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn end(id: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

fn last_words(log: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

/// `root` and all its descendants, as `/proc/ID/task/*/children` tells.
fn family(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(&id) = found.get(at) {
        at += 1;
        for task in tasks(id) {
            let path = format!("/proc/{id}/task/{task}/children");
            let children = fs::read_to_string(path).unwrap_or_default();
            found.extend(children.split_ascii_whitespace().filter_map(|it| it.parse::<u32>().ok()));
        }
    }
    found
}

fn tasks(id: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{id}/task")) else { return Vec::new() };
    entries.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok()).collect()
}

/// The larger figure of two files in `/proc`: `schedstat` counts nanoseconds but forgets ended threads, `stat` forgets
/// none but counts hundredths of a second.
fn cpu_of(id: u32) -> u64 {
    let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let coarse = ticks_in(&stat).unwrap_or(0) * tick;
    let schedstat =
        |task| fs::read_to_string(format!("/proc/{id}/task/{task}/schedstat")).unwrap_or_default();
    let fine: u64 = tasks(id).into_iter().map(|task| nanoseconds_in(&schedstat(task))).sum();
    if fine + 2 * tick >= coarse { fine } else { coarse }
}

/// `utime + stime + cutime + cstime` of a line of `/proc/ID/stat`, in ticks. The name in brackets may hold
/// anything, so counting begins after the last bracket.
pub fn ticks_in(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    fields.get(11..15)?.iter().map(|it| it.parse::<u64>().ok()).sum()
}

fn nanoseconds_in(schedstat: &str) -> u64 {
    schedstat.split_ascii_whitespace().next().and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn resident_in(status: &str) -> u64 {
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_ascii_whitespace().next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// A port that was free a moment ago.
///
/// # Errors
/// Where there is none.
pub fn free_port() -> io::Result<u16> {
    std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(|it| it.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_is_skipped() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 9 9 9";
        assert_eq!(Some(127), ticks_in(line));
        assert_eq!(None, ticks_in("7 (a) S 1"));
        assert_eq!(None, ticks_in(""));
    }

    #[test]
    fn resident_bytes_are_written_in_kilobytes() {
        assert_eq!(2048, resident_in("Name:\tx\nVmRSS:\t       2 kB\nVmSwap:\t 1 kB\n"));
        assert_eq!(0, resident_in("Name:\tkworker\n"), "a kernel thread has none");
    }

    #[test]
    fn our_own_time_is_read() {
        assert!(family(std::process::id()).contains(&std::process::id()));
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert!(resident_in(&status) > 0);
        assert_eq!(12, nanoseconds_in("12 34 5\n"));
    }
}
