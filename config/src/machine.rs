//! Comparison of the configured sizes with the machine: warnings for `check` and for a start. Contradictions within the
//! configuration are in `check`.

use super::{Config, Problem};
use larder_stdx::size::ByteSize;
use std::path::{Path, PathBuf};

/// The tiers that exceed this machine.
pub fn beyond(config: &Config) -> Vec<Problem> {
    let problem =
        |key: &str, text: String| Problem { source: config.decided.by(key), key: key.to_owned(), text };
    let mut beyond = Vec::new();
    if let Some(memory) = memory().filter(|it| *it < config.ram.budget) {
        let (size, memory) = (ByteSize(config.ram.budget), spell(memory));
        let text = format!(
            "{size} exceeds the memory that is available to larder ({memory}); the kernel would kill the process"
        );
        beyond.push(problem("cache.ram.size", text));
    }
    if let Some(disk) = &config.disk
        && let Some(device) = device(&disk.path).filter(|it| *it < disk.size)
    {
        let (size, device) = (ByteSize(disk.size), spell(device));
        let text =
            format!("{size} exceeds the total size of the device of {} ({device})", disk.path.display());
        beyond.push(problem("cache.disk.size", text));
    }
    beyond
}

/// Bytes in the largest unit of which there is at least one, rounded down.
fn spell(bytes: u64) -> String {
    let unit = [30, 20, 10].into_iter().find(|it| bytes >> it > 0).unwrap_or(0);
    ByteSize(bytes >> unit << unit).to_string()
}

/// The memory limit of this process: the machine's memory, or the limit of its control group if that is lower.
fn memory() -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    // Not /proc/meminfo, which a service with `ProcSubset=pid` does not see.
    let about = rustix::system::sysinfo();
    let total = about.totalram.checked_mul(u64::from(about.mem_unit)).filter(|it| *it > 0)?;
    let groups = read(Path::new("/proc/self/cgroup"));
    let limits = limits_of(&groups).into_iter().filter_map(|it| read(&it).trim().parse::<u64>().ok());
    Some(limits.fold(total, u64::min))
}

/// The memory that this machine, and the control group, can give to processes now; `None` where that is unknown.
#[must_use]
pub fn memory_left() -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    // Without /proc/meminfo, which a service with `ProcSubset=pid` does not see, the free memory is a lower bound.
    let about = rustix::system::sysinfo();
    let free = about.freeram.saturating_add(about.bufferram).checked_mul(u64::from(about.mem_unit))?;
    let machine = read(Path::new("/proc/meminfo")).and_then(|it| available(&it)).unwrap_or(free);
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let left = |limit: PathBuf| {
        let most: u64 = read(&limit)?.trim().parse().ok()?;
        let used: u64 = read(&limit.with_file_name("memory.current"))?.trim().parse().ok()?;
        let files = cached(&read(&limit.with_file_name("memory.stat"))?);
        Some(most.saturating_sub(used.saturating_sub(files)))
    };
    Some(limits_of(&groups).into_iter().filter_map(left).fold(machine, u64::min))
}

/// The bytes of `MemAvailable` in /proc/meminfo.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|it| it.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The bytes of files in a control group's `memory.stat`, which the kernel drops when memory is needed.
fn cached(stat: &str) -> u64 {
    let value = |name: &str| stat.lines().find_map(|it| it.strip_prefix(name)?.trim().parse::<u64>().ok());
    ["inactive_file ", "active_file "].into_iter().filter_map(value).sum()
}

/// The files with the limits of the control group (version 2) and of its parents; in a container the root is its own
/// group.
fn limits_of(groups: &str) -> Vec<PathBuf> {
    let own = groups.lines().find_map(|it| it.strip_prefix("0::/")).unwrap_or("");
    let around = Path::new(own).ancestors();
    around.map(|it| Path::new("/sys/fs/cgroup").join(it).join("memory.max")).collect()
}

/// The size of the device of a directory, existing or not.
fn device(directory: &Path) -> Option<u64> {
    let there = directory.ancestors().find(|it| it.exists())?;
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    let about = rustix::fs::statvfs(there).ok()?;
    about.f_blocks.checked_mul(about.f_frsize).filter(|it| *it > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_larger_than_the_machine_are_warned_of() {
        let folder = tempfile::tempdir().unwrap();
        let of = |ram: &str, disk: &str| {
            let path = folder.path().join("not/yet/there");
            let text = format!(
                "[cache]\nram.size = \"{ram}\"\ndisk.path = {path:?}\ndisk.size = \"{disk}\"\n[[site]]\nhosts = [\"*\"]\n\
                 [[site.route]]\nfiles.root = \".\"\n"
            );
            let config = Config::from_text(&text, "t.toml", folder.path(), &[]).unwrap();
            beyond(&config).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(Vec::<String>::new(), of("16MiB", "1GiB"));
        let report = of("64TiB", "1024TiB");
        let [ram, disk] = report.as_slice() else { panic!("{report:?}") };
        assert!(ram.starts_with("t.toml:2: cache.ram.size: 64TiB exceeds the memory"), "{ram}");
        assert!(
            disk.starts_with("t.toml:4: cache.disk.size: 1024TiB exceeds the total size of the device of "),
            "{disk}"
        );
    }

    #[test]
    fn memory_that_is_left_is_read() {
        assert_eq!(Some(3 << 10), available("MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:       3 kB\n"));
        assert_eq!(None, available("MemTotal: 9 kB\n"));
        assert_eq!(7, cached("anon 100\ninactive_file 3\nactive_file 4\nshmem 9\n"));
        assert!(memory_left().is_some_and(|it| it > 0));
    }

    #[test]
    fn limits_are_those_of_the_group_and_around_it() {
        let files = |groups| limits_of(groups).iter().map(|it| it.display().to_string()).collect::<Vec<_>>();
        assert_eq!(["/sys/fs/cgroup/memory.max"], files("0::/\n").as_slice());
        assert_eq!(
            ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"],
            files("1:cpu:/x\n0::/a/b\n").as_slice()
        );
        assert_eq!(["512B", "3KiB", "7GiB"].map(str::to_owned), [512, 4095, (8 << 30) - 1].map(spell));
    }
}
