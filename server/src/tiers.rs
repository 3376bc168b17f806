//! The tiers below RAM of a running server: opened from the configuration, given to each worker, and maintained by the
//! main thread's timer. Lookups in them are in `larder_gateway`.

use larder_config::{Config, tiers};
use larder_counters::Counters;
use larder_gateway::LowerTiers;
use larder_observe::log::{ErrorLog, Level, Subsystem, SubsystemLog};
use larder_stdx::error::plain;
use larder_store::disk::{self, DirectoryCheck, DiskState};
use larder_store::fleet::{self, Fleet, Health, ServerChange};
use larder_store::{DiskTier, Store, spool};
use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Checks in advance what [`SharedTiers::open`] would find: the directory of the disk tier may be in use until then.
///
/// # Errors
/// One sentence.
pub fn check_disk(config: &Config) -> Result<(), String> {
    let Some(it) = &config.disk else { return Ok(()) };
    match disk::check(&it.path) {
        DirectoryCheck::Usable => Ok(()),
        DirectoryCheck::Unusable(why) | DirectoryCheck::NoAccess(why) => {
            Err(not_opened(&it.path, &format!("{} {why}", it.path.display())))
        }
    }
}

/// The state of the tiers below RAM that all workers share.
#[derive(Clone)]
pub struct SharedTiers {
    disk: Option<Arc<DiskTier>>,
    fleet: Option<(Arc<fleet::FleetSettings>, Arc<Health>)>,
}

impl SharedTiers {
    /// Opens the configured tiers. Purges of an earlier process are then in force in `store`.
    ///
    /// # Errors
    /// One sentence: why the disk tier cannot be opened.
    pub fn open(
        config: &Config,
        store: &Store,
        counters: impl Fn() -> Arc<Counters>,
        errors: &ErrorLog,
    ) -> Result<Self, String> {
        // Before the disk restores the purges of its journal.
        if let Some(name) = config.fleet.as_ref().and_then(|it| it.client.keys.namespace()) {
            store.share_hosts(name);
        }
        let disk = match &config.disk {
            Some(it) => Some(open_disk(it, store, counters())?),
            None => None,
        };
        let fleet = match &config.fleet {
            Some(it) => {
                let settings = Arc::new(it.client.clone());
                let teller = errors.of(Subsystem::Fleet);
                let report = Box::new(move |server: &fleet::FleetAddress, change| {
                    report_server(&teller, server, change)
                });
                let health = Health::new(&settings, counters(), Some(report));
                health.follow(follower(errors.of(Subsystem::Fleet)));
                Some((settings, health))
            }
            None => None,
        };
        if disk.is_none() && fleet.is_none() {
            store.has_no_lower_tier();
        }
        Ok(Self { disk, fleet })
    }

    /// The tiers of one worker. Within its `LocalSet`.
    #[must_use]
    pub fn of_worker(&self, store: &Arc<Store>, counters: &Arc<Counters>) -> LowerTiers {
        LowerTiers { disk: self.disk.clone(), fleet: self.fleet(store, counters) }
    }

    /// The disk tier.
    #[must_use]
    pub fn disk(&self) -> Option<Arc<DiskTier>> {
        self.disk.clone()
    }

    /// Whether there is a fleet.
    #[must_use]
    pub fn has_fleet(&self) -> bool {
        self.fleet.is_some()
    }

    /// A separate client of the fleet. Within a `LocalSet`.
    #[must_use]
    pub fn fleet(&self, store: &Arc<Store>, counters: &Arc<Counters>) -> Option<std::rc::Rc<Fleet>> {
        let (settings, health) = self.fleet.as_ref()?;
        Some(Fleet::new(settings.clone(), health.clone(), store.clone(), counters.clone()))
    }
}

/// Maintains the disk tier about once a second, and logs changes of its state.
pub struct DiskWatch {
    disk: Option<Arc<DiskTier>>,
    teller: SubsystemLog,
    last: RefCell<DiskState>,
    /// Whether reads skip the device, and whether it is full, as last logged.
    reads_off: Cell<bool>,
    device_full: Cell<bool>,
    /// Whether "validate everything" was logged, and the logged number of damaged records.
    revalidation_reason: Cell<bool>,
    corrupt: Cell<u64>,
    /// The index memory charged to the store.
    entered: Cell<u64>,
}

impl DiskWatch {
    /// For a tier that is logged as on.
    #[must_use]
    pub fn new(lower: &SharedTiers, errors: &ErrorLog) -> Self {
        let teller = errors.of(Subsystem::Disk);
        let (reads_off, device_full, revalidation_reason, corrupt, entered) = Default::default();
        let last = RefCell::new(DiskState::On);
        Self {
            disk: lower.disk.clone(),
            teller,
            last,
            reads_off,
            device_full,
            revalidation_reason,
            corrupt,
            entered,
        }
    }

    /// Retries after a failure, when due; charges the memory of the index to the RAM budget.
    pub fn look(&self, store: &Store) {
        let Some(disk) = &self.disk else { return };
        disk.look();
        let mut entered = self.entered.get();
        store.charge_external(&mut entered, disk.memory());
        self.entered.set(entered);
        self.log_damage(disk);
        self.log_device_state(disk);
        let now = disk.state();
        let last = self.last.replace(now.clone());
        match now {
            _ if now == last => {}
            DiskState::On => {
                self.teller.event(Level::Info, "disk-on", &[("now", "the disk tier writes again")])
            }
            DiskState::HandedOver => {}
            DiskState::Off(why) => {
                let now = match disk.objects() {
                    0 => "the disk tier neither reads nor writes",
                    _ => "the disk tier does not write; stored responses are still read",
                };
                let values = [("why", &*why), ("now", now)];
                self.teller.event(Level::Warn, "disk-off", &values);
            }
        }
    }
}

impl DiskWatch {
    /// Logs damage: since the last check, and at the opening of the tier.
    fn log_damage(&self, disk: &DiskTier) {
        let path = disk.path().display().to_string();
        if !self.revalidation_reason.replace(true)
            && let Some(why) = disk.revalidation_reason()
        {
            let now = "every response on disk is validated with the origin before use";
            self.teller.event(
                Level::Warn,
                "disk-revalidating",
                &[("path", &path), ("why", why), ("now", now)],
            );
        }
        let corrupt = disk.corrupt();
        let new = corrupt - self.corrupt.replace(corrupt);
        if new > 0 {
            let (records, total) = (new.to_string(), corrupt.to_string());
            let values = [
                ("path", path.as_str()),
                ("records", &records),
                ("total", &total),
                ("why", "the data is corrupt: check the device"),
                ("now", "the responses are dropped and fetched from the origin on request"),
            ];
            self.teller.event(Level::Warn, "disk-corrupt", &values);
        }
    }

    /// Logs problems of the device while the tier is on.
    fn log_device_state(&self, disk: &DiskTier) {
        let reads_off = disk.skips_reads();
        match (self.reads_off.replace(reads_off), reads_off) {
            (false, true) => {
                let values = [
                    ("why", "three consecutive reads took longer than 1 s"),
                    ("now", "reads from the device are skipped, except for one probe every cache.disk.retry"),
                ];
                self.teller.event(Level::Warn, "disk-reads-off", &values);
            }
            (true, false) => {
                self.teller.event(Level::Info, "disk-reads-on", &[("now", "the device responds again")]);
            }
            _ => {}
        }
        let device_full = disk.is_device_full();
        if device_full && !self.device_full.replace(device_full) {
            let values = [
                ("why", "the device is full before cache.disk.size is reached"),
                ("now", "the oldest segments are dropped for new ones"),
            ];
            self.teller.event(Level::Warn, "disk-full", &values);
        }
        self.device_full.set(device_full);
    }
}

/// The directory of temporary files: of the spool, or of the large results of a database in a file.
#[must_use]
pub fn temporary_folder(config: &Config) -> Option<PathBuf> {
    let has_database = || !config.databases.is_empty();
    config.spool.as_ref().map(spool_folder).or_else(|| has_database().then(usual_folder))
}

fn spool_folder(it: &tiers::SpoolConfig) -> PathBuf {
    it.directory.clone().unwrap_or_else(usual_folder)
}

fn usual_folder() -> PathBuf {
    for_files(std::env::var_os("TMPDIR"))
}

/// Opens the spool, if configured. If no file can be created there is none: slow readers are then cut.
pub fn open_spool(config: &Config, store: &Store, errors: &ErrorLog) {
    let Some(it) = &config.spool else { return };
    let directory = spool_folder(it);
    let settings = spool::SpoolSettings { directory: directory.clone(), size: it.size };
    if let Err(error) = store.spool_to(settings) {
        let why = format!("{}: {}", directory.display(), plain(&error));
        let now = "slow clients of a shared body that is too large to store fall behind";
        errors.of(Subsystem::Disk).event(Level::Warn, "spool-off", &[("why", &why), ("now", now)]);
    }
}

/// The directory for large temporary files: not /tmp, which may be memory.
fn for_files(variable: Option<OsString>) -> PathBuf {
    variable.map(PathBuf::from).filter(|it| it.is_absolute()).unwrap_or_else(|| "/var/tmp".into())
}

fn open_disk(
    it: &disk::DiskSettings,
    store: &Store,
    counters: Arc<Counters>,
) -> Result<Arc<DiskTier>, String> {
    let disk = DiskTier::open(it.clone(), counters).map_err(|error| not_opened(&it.path, &plain(&error)))?;
    let restored = disk.restored();
    store.restore(restored.last_seq, restored.rules);
    store.evict_to(&disk);
    Ok(disk)
}

/// The reason why there is no disk tier, with its directory named once.
fn not_opened(path: &Path, why: &str) -> String {
    let path = path.display().to_string();
    let beneath = if why.contains(&path) { String::new() } else { format!(" {path}") };
    format!("The disk tier{beneath} cannot be opened: {why}.")
}

/// Logs each operation, if the subsystem's level permits.
fn follower(teller: SubsystemLog) -> fleet::OperationFollower {
    let follows = teller.clone();
    let log_operation = move |it: &fleet::OperationResult<'_>| {
        let (server, micros) = (it.server.to_string(), it.micros.to_string());
        let values = [
            ("server", server.as_str()),
            ("what", it.what),
            ("key", it.key),
            ("came", it.came),
            ("duration_us", &micros),
        ];
        teller.event(Level::Debug, "fleet-operation", &values);
    };
    fleet::OperationFollower {
        follows: Box::new(move || follows.logs(Level::Debug)),
        report: Box::new(log_operation),
    }
}

fn report_server(teller: &SubsystemLog, server: &fleet::FleetAddress, change: ServerChange) {
    let server = server.to_string();
    match change {
        ServerChange::Ejected => {
            let values = [("server", server.as_str()), ("why", "too many consecutive failures")];
            teller.event(Level::Warn, "fleet-server-ejected", &values);
        }
        ServerChange::Suspended => {
            let why = "too many consecutive failures; its keys are misses until it responds";
            teller.event(Level::Warn, "fleet-server-failing", &[("server", &server), ("why", why)]);
        }
        ServerChange::Readmitted => {
            teller.event(Level::Info, "fleet-server-readmitted", &[("server", &server)])
        }
        ServerChange::Resumed => teller.event(Level::Info, "fleet-server-recovered", &[("server", &server)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spooled_files_lie_where_the_system_has_such() {
        assert_eq!(Path::new("/t"), for_files(Some("/t".into())));
        assert_eq!(Path::new("/var/tmp"), for_files(Some("t".into())));
        assert_eq!(Path::new("/var/tmp"), for_files(None));
    }

    #[test]
    fn the_directory_of_a_disk_tier_is_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let settings = disk::DiskSettings {
            path: file.clone(),
            size: 1 << 30,
            segment_size: 64 << 20,
            min_ttl: 10,
            heap_line: 0,
            promote_after: 1,
            readers: 1,
            queue: 1 << 20,
            retry: std::time::Duration::from_secs(1),
        };
        let error = DiskTier::open(settings, Arc::default()).err().expect("a file is no directory");
        let expect = format!(
            "The disk tier cannot be opened: cache.disk.path: {} is not a directory, or is below a path that is not a directory.",
            file.display()
        );
        assert_eq!(expect, not_opened(&file, &plain(&error)));
        assert_eq!(
            "The disk tier /d cannot be opened: out of memory.",
            not_opened(Path::new("/d"), "out of memory")
        );
    }
}
