//! The tiers below RAM of a running server: opened as the configuration describes them, handed to each worker, and
//! looked after by the main thread's timer. When they are asked is in `larder_gateway`.

use larder_config::place::Place;
use larder_config::{Config, tiers};
use larder_counters::Counters;
use larder_gateway::Tiers;
use larder_observe::log::{ErrorLog, Level, Subsystem, Teller};
use larder_stdx::error::plain;
use larder_store::disk::{self, State};
use larder_store::fleet::{self, Change, Fleet, Health};
use larder_store::{Disk, Store, spool};
use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What all workers share of the tiers below RAM.
#[derive(Clone)]
pub struct Lower {
    disk: Option<Arc<Disk>>,
    promote_after: u32,
    fleet: Option<(Arc<fleet::Settings>, Arc<Health>)>,
}

impl Lower {
    /// Opens the tiers that are configured. What an earlier process wrote down of purges is in force in `store` then.
    ///
    /// # Errors
    /// One sentence: why there can be no disk tier.
    pub fn open(
        config: &Config,
        store: &Store,
        counters: impl Fn() -> Arc<Counters>,
        errors: &ErrorLog,
    ) -> Result<Self, String> {
        // Before the disk brings back the purges that it knows of.
        if let Some(name) = config.fleet.as_ref().and_then(|it| it.namespace.as_deref()) {
            store.share_hosts(name);
        }
        let disk = match &config.disk {
            Some(it) => Some(open_disk(it, config.ram.heap_line, store, counters())?),
            None => None,
        };
        let fleet = match &config.fleet {
            Some(it) => {
                let settings = Arc::new(fleet_settings(it)?);
                let teller = errors.of(Subsystem::Fleet);
                let told = Box::new(move |server: &fleet::Address, change| tell(&teller, server, change));
                let health = Health::new(&settings, counters(), Some(told));
                health.follow(follower(errors.of(Subsystem::Fleet)));
                Some((settings, health))
            }
            None => None,
        };
        if disk.is_none() && fleet.is_none() {
            store.has_no_lower_tier();
        }
        let promote_after = config.disk.as_ref().map_or(1, |it| it.promote_after);
        Ok(Self { disk, promote_after, fleet })
    }

    /// The tiers as one worker has them. Within its `LocalSet`.
    #[must_use]
    pub fn of_worker(&self, store: &Arc<Store>, counters: &Arc<Counters>) -> Tiers {
        Tiers {
            disk: self.disk.clone(),
            promote_after: self.promote_after,
            fleet: self.fleet(store, counters),
        }
    }

    /// The disk tier.
    #[must_use]
    pub fn disk(&self) -> Option<Arc<Disk>> {
        self.disk.clone()
    }

    /// Whether there is a fleet.
    #[must_use]
    pub fn has_fleet(&self) -> bool {
        self.fleet.is_some()
    }

    /// A client of the fleet of one's own. Within a `LocalSet`.
    #[must_use]
    pub fn fleet(&self, store: &Arc<Store>, counters: &Arc<Counters>) -> Option<std::rc::Rc<Fleet>> {
        let (settings, health) = self.fleet.as_ref()?;
        Some(Fleet::new(settings.clone(), health.clone(), store.clone(), counters.clone()))
    }
}

/// Looks after the disk tier about once a second, and tells when its state changes.
pub struct DiskWatch {
    disk: Option<Arc<Disk>>,
    teller: Teller,
    last: RefCell<State>,
    /// Whether reads leave the device alone, and whether it is full, as anybody was told.
    alone: Cell<bool>,
    cramped: Cell<bool>,
    /// Whether it was told that all is doubted, and of how many damaged records.
    doubted: Cell<bool>,
    corrupt: Cell<u64>,
    /// What the store has entered for the index.
    entered: Cell<u64>,
}

impl DiskWatch {
    /// Of a tier that is on as far as anybody was told.
    #[must_use]
    pub fn new(lower: &Lower, errors: &ErrorLog) -> Self {
        let teller = errors.of(Subsystem::Disk);
        let (alone, cramped, doubted, corrupt, entered) = Default::default();
        let last = RefCell::new(State::On);
        Self { disk: lower.disk.clone(), teller, last, alone, cramped, doubted, corrupt, entered }
    }

    /// Tries again after a failure, where it is time to; enters in the books of RAM what the index takes.
    pub fn look(&self, store: &Store) {
        let Some(disk) = &self.disk else { return };
        disk.look();
        let mut entered = self.entered.get();
        store.account_beside(&mut entered, disk.memory());
        self.entered.set(entered);
        self.tell_of_damage(disk);
        self.tell_of_device(disk);
        let now = disk.state();
        let last = self.last.replace(now.clone());
        match now {
            _ if now == last => {}
            State::On => self.teller.event(Level::Info, "disk-on", &[("now", "the disk tier writes again")]),
            State::Off(why) => {
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
    /// What was found damaged: since the last look, and when the tier was opened.
    fn tell_of_damage(&self, disk: &Disk) {
        let path = disk.path().display().to_string();
        if !self.doubted.replace(true)
            && let Some(why) = disk.doubted()
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

    /// What is not well with the device though the tier is on.
    fn tell_of_device(&self, disk: &Disk) {
        let alone = disk.leaves_reads_alone();
        match (self.alone.replace(alone), alone) {
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
        let cramped = disk.is_cramped();
        if cramped && !self.cramped.replace(cramped) {
            let values = [
                ("why", "the device is full before cache.disk.size is reached"),
                ("now", "the oldest segments are dropped for new ones"),
            ];
            self.teller.event(Level::Warn, "disk-full", &values);
        }
        self.cramped.set(cramped);
    }
}

/// Opens the spool, if there is to be one. Where no file can be made there is none: slow readers are left behind then.
pub fn open_spool(config: &Config, store: &Store, errors: &ErrorLog) {
    let Some(it) = &config.spool else { return };
    let directory = it.directory.clone().unwrap_or_else(|| for_files(std::env::var_os("TMPDIR")));
    let settings = spool::Settings { directory: directory.clone(), size: it.size };
    if let Err(error) = store.spool_to(settings) {
        let why = format!("{}: {}", directory.display(), plain(&error));
        let now = "slow clients of a shared body that is too large to store fall behind";
        errors.of(Subsystem::Disk).event(Level::Warn, "spool-off", &[("why", &why), ("now", now)]);
    }
}

/// Where programs put large files that nobody else needs: not in /tmp, which may be memory.
fn for_files(variable: Option<OsString>) -> PathBuf {
    variable.map(PathBuf::from).filter(|it| it.is_absolute()).unwrap_or_else(|| "/var/tmp".into())
}

fn open_disk(
    it: &tiers::Disk,
    heap_line: usize,
    store: &Store,
    counters: Arc<Counters>,
) -> Result<Arc<Disk>, String> {
    let settings = disk::Settings {
        path: it.path.clone(),
        size: it.size,
        segment_size: it.segment_size,
        min_ttl: it.min_ttl,
        heap_line,
        readers: it.readers,
        queue: it.queue,
        retry: it.retry,
    };
    let disk = Disk::open(settings, counters).map_err(|error| not_opened(&it.path, &plain(&error)))?;
    let restored = disk.restored();
    store.restore(restored.last_seq, restored.rules);
    store.evict_to(&disk);
    Ok(disk)
}

/// Why there is no disk tier, with its directory named once.
fn not_opened(path: &Path, why: &str) -> String {
    let path = path.display().to_string();
    let beneath = if why.contains(&path) { String::new() } else { format!(" {path}") };
    format!("The disk tier{beneath} cannot be opened: {why}.")
}

fn fleet_settings(it: &tiers::Fleet) -> Result<fleet::Settings, String> {
    let keys = fleet::Keys::new(&it.key_prefix, it.namespace.as_deref(), it.md5_keys);
    Ok(fleet::Settings {
        servers: it.servers.iter().map(address).collect(),
        protocol: match it.protocol {
            tiers::Protocol::Meta => fleet::Protocol::Meta,
            tiers::Protocol::Binary => fleet::Protocol::Binary,
        },
        distribution: match it.distribution {
            tiers::Distribution::Ketama => fleet::Distribution::Ketama,
            tiers::Distribution::KetamaWeighted => fleet::Distribution::KetamaWeighted,
            tiers::Distribution::Modula => fleet::Distribution::Modula,
        },
        hash: hash(it.hash),
        keys: keys.map_err(|error| format!("cache.fleet: {error}."))?,
        expire: std::time::Duration::from_secs(it.expire.into()),
        put: it.put,
        no_block: it.no_block,
        timeout: it.timeout,
        connect_timeout: it.connect_timeout,
        hedge: it.hedge,
        auto_eject: it.auto_eject,
        failures: it.failures,
        retry: it.retry,
        max_item: it.max_item,
        large: match it.large {
            tiers::Large::Split => fleet::Large::Split,
            tiers::Large::Skip => fleet::Large::Skip,
        },
        compress_above: it.compress_above,
        local_ttl: std::time::Duration::from_secs(it.local_ttl.into()),
        filled_by: match it.filled_by {
            tiers::FilledBy::Larder => fleet::FilledBy::Larder,
            tiers::FilledBy::Applications => fleet::FilledBy::Applications,
            tiers::FilledBy::Older => fleet::FilledBy::Older,
        },
        recompute_once: it.recompute_once,
        stale_grace: std::time::Duration::from_secs(it.stale_grace.into()),
        connections: it.connections,
        queue: it.queue,
    })
}

fn hash(it: tiers::Hash) -> fleet::Hash {
    match it {
        tiers::Hash::Default => fleet::Hash::Default,
        tiers::Hash::Md5 => fleet::Hash::Md5,
        tiers::Hash::Crc => fleet::Hash::Crc,
        tiers::Hash::Fnv32 => fleet::Hash::Fnv1_32,
        tiers::Hash::Fnv64 => fleet::Hash::Fnv1_64,
        tiers::Hash::Fnv32a => fleet::Hash::Fnv1a32,
        tiers::Hash::Fnv64a => fleet::Hash::Fnv1a64,
        tiers::Hash::Murmur => fleet::Hash::Murmur,
        tiers::Hash::OneAtATime => fleet::Hash::OneAtATime,
    }
}

fn address(it: &larder_config::place::Server) -> fleet::Address {
    let at = match &it.place {
        Place::Tcp(host, port) => fleet::At::Tcp(host.clone(), *port),
        Place::Unix(path) => fleet::At::Unix(path.clone()),
    };
    fleet::Address { at, weight: it.weight.unwrap_or(1) }
}

/// Tells of each operation, while the subsystem's level says so.
fn follower(teller: Teller) -> fleet::Follower {
    let follows = teller.clone();
    let tell = move |it: &fleet::Step<'_>| {
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
    fleet::Follower { follows: Box::new(move || follows.tells(Level::Debug)), tell: Box::new(tell) }
}

fn tell(teller: &Teller, server: &fleet::Address, change: Change) {
    let server = server.to_string();
    match change {
        Change::Ejected => {
            let values = [("server", server.as_str()), ("why", "too many consecutive failures")];
            teller.event(Level::Warn, "fleet-server-ejected", &values);
        }
        Change::LeftAlone => {
            let why = "too many consecutive failures; its keys are misses until it responds";
            teller.event(Level::Warn, "fleet-server-failing", &[("server", &server), ("why", why)]);
        }
        Change::Readmitted => teller.event(Level::Info, "fleet-server-readmitted", &[("server", &server)]),
        Change::Back => teller.event(Level::Info, "fleet-server-recovered", &[("server", &server)]),
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
        let settings = disk::Settings {
            path: file.clone(),
            size: 1 << 30,
            segment_size: 64 << 20,
            min_ttl: 10,
            heap_line: 0,
            readers: 1,
            queue: 1 << 20,
            retry: std::time::Duration::from_secs(1),
        };
        let error = Disk::open(settings, Arc::default()).err().expect("a file is no directory");
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
