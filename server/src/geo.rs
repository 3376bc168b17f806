//! The databases of countries and autonomous systems in force, and their files, which are watched. A broken or missing file
//! changes nothing: it is logged and counted.

use crate::config_watch::{FileLook, look};
use larder_config::geo::{GeoConfig, GeoContent};
use larder_counters::Counters;
use larder_observe::log::{ErrorLog, Level};
use larder_semantics::geo::GeoLookup;
use larder_semantics::server_state::BrokenFileFact;
use larder_stdx::clock;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The databases of a configuration.
pub struct LiveGeo {
    config: GeoConfig,
    /// The lookup in them.
    pub lookup: Arc<GeoLookup>,
    files: Mutex<Vec<WatchedDatabase>>,
}

/// The file of a database.
#[derive(Clone)]
struct WatchedDatabase {
    path: PathBuf,
    content: GeoContent,
    /// Its state when it was last read or found broken, and at the last look.
    taken: Option<FileLook>,
    seen: Option<FileLook>,
    /// Why its file cannot be used, if so.
    broken: Option<BrokenFileFact>,
}

impl LiveGeo {
    /// Reads the databases of a configuration; one of `before` is kept if its path is the same, also if its file is broken now.
    ///
    /// # Errors
    /// One sentence: the file that could not be read.
    pub fn open(config: &GeoConfig, before: Option<&Arc<LiveGeo>>) -> Result<Option<Arc<Self>>, String> {
        if let Some(before) = before.filter(|it| it.config == *config) {
            return Ok(Some(before.clone()));
        }
        if *config == GeoConfig::default() {
            return Ok(None);
        }
        let new = Self { config: config.clone(), lookup: Arc::default(), files: Mutex::default() };
        for (path, content) in
            [(&config.countries, GeoContent::Countries), (&config.numbers, GeoContent::Numbers)]
        {
            let Some(path) = path else { continue };
            let file = match before.and_then(|it| new.keep(it, path, content)) {
                Some(kept) => kept,
                None => new.open_file(path, content)?,
            };
            new.files.lock().push(file);
        }
        Ok(Some(Arc::new(new)))
    }

    /// Takes over the database of a path from `before`, with the state of its file.
    fn keep(&self, before: &LiveGeo, path: &Path, content: GeoContent) -> Option<WatchedDatabase> {
        let files = before.files.lock();
        let file = files.iter().find(|it| it.path == path && it.content == content)?;
        match content {
            GeoContent::Countries => self.lookup.share_countries(&before.lookup),
            GeoContent::Numbers => self.lookup.share_numbers(&before.lookup),
        }
        Some(file.clone())
    }

    fn open_file(&self, path: &Path, content: GeoContent) -> Result<WatchedDatabase, String> {
        // Before it is read: a change meanwhile is noticed.
        let now = look(path);
        let file = WatchedDatabase { path: path.to_owned(), content, taken: now, seen: now, broken: None };
        let read = self.read_again(&file);
        read.map_err(|why| format!("The database {} cannot be used: {why}.", path.display()))?;
        Ok(file)
    }

    /// Reads files that were replaced, and unchanged since the look before. To be called once a second.
    pub fn look(&self, counters: &Counters, errors: &ErrorLog) {
        for file in self.files.lock().iter_mut() {
            if !file.has_changed() {
                continue;
            }
            let path = file.path.display().to_string();
            match self.read_again(file) {
                Ok(()) => {
                    file.broken = None;
                    errors.event(Level::Info, "geoip-reloaded", &[("file", &path)]);
                }
                Err(why) => {
                    counters.access_files_broken.add_shared(1);
                    let values = [
                        ("file", path.as_str()),
                        ("why", &why),
                        ("now", "the previous database stays in use"),
                    ];
                    errors.event(Level::Error, "geoip-rejected", &values);
                    let effect = "the previous database stays in use";
                    file.broken = Some(BrokenFileFact { name: path, at: clock::wall().0, why, effect });
                }
            }
        }
    }

    /// The files that cannot be used.
    pub(crate) fn broken_files(&self) -> Vec<BrokenFileFact> {
        self.files.lock().iter().filter_map(|it| it.broken.clone()).collect()
    }

    fn read_again(&self, file: &WatchedDatabase) -> Result<(), String> {
        let database = file.content.read(&file.path)?;
        match file.content {
            GeoContent::Countries => self.lookup.replace_countries(database),
            GeoContent::Numbers => self.lookup.replace_numbers(database),
        }
        Ok(())
    }
}

impl WatchedDatabase {
    /// Whether the file changed or vanished, and has been the same in two looks since: a program that is still writing can finish.
    fn has_changed(&mut self) -> bool {
        let now = look(&self.path);
        let is_settled = now == self.seen;
        self.seen = now;
        if now == self.taken || !is_settled {
            return false;
        }
        self.taken = now;
        true
    }
}
