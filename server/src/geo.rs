//! The databases of countries and autonomous systems in force, and their files, which are watched. A broken or missing file
//! changes nothing: it is logged and counted.

use crate::config_watch::{FileLook, look};
use larder_config::geo::{GeoConfig, GeoContent};
use larder_counters::Counters;
use larder_observe::log::{ErrorLog, Level};
use larder_semantics::geo::GeoLookup;
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
struct WatchedDatabase {
    path: PathBuf,
    content: GeoContent,
    /// Its state when it was last read or found broken, and at the last look.
    taken: Option<FileLook>,
    seen: Option<FileLook>,
}

impl LiveGeo {
    /// Reads the databases of a configuration; those of `before` are kept if their files are the same.
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
        let mut files = Vec::new();
        let mut open = |path: &Option<PathBuf>, content: GeoContent| {
            let Some(path) = path else { return Ok(None) };
            // Before it is read: a change meanwhile is noticed.
            let now = look(path);
            files.push(WatchedDatabase { path: path.clone(), content, taken: now, seen: now });
            let read = content.read(path);
            read.map(Some).map_err(|why| format!("The database {} cannot be used: {why}.", path.display()))
        };
        let countries = open(&config.countries, GeoContent::Countries)?;
        let numbers = open(&config.numbers, GeoContent::Numbers)?;
        let lookup = Arc::new(GeoLookup::new(countries, numbers));
        Ok(Some(Arc::new(Self { config: config.clone(), lookup, files: Mutex::new(files) })))
    }

    /// Reads files that were replaced, and unchanged since the look before. To be called once a second.
    pub fn look(&self, counters: &Counters, errors: &ErrorLog) {
        for file in self.files.lock().iter_mut().filter_map(WatchedDatabase::changed) {
            let path = file.0.display().to_string();
            match self.read_again(&file) {
                Ok(()) => errors.event(Level::Info, "geoip-reloaded", &[("file", &path)]),
                Err(why) => {
                    counters.access_files_broken.add_shared(1);
                    let values = [
                        ("file", path.as_str()),
                        ("why", &why),
                        ("now", "the previous database stays in use"),
                    ];
                    errors.event(Level::Error, "geoip-rejected", &values);
                }
            }
        }
    }

    fn read_again(&self, (path, content): &(PathBuf, GeoContent)) -> Result<(), String> {
        let database = content.read(Path::new(path))?;
        match content {
            GeoContent::Countries => self.lookup.replace_countries(database),
            GeoContent::Numbers => self.lookup.replace_numbers(database),
        }
        Ok(())
    }
}

impl WatchedDatabase {
    /// The file, if it changed or vanished, and has been the same in two looks since: a program that is still writing can finish.
    fn changed(&mut self) -> Option<(PathBuf, GeoContent)> {
        let now = look(&self.path);
        let is_settled = now == self.seen;
        self.seen = now;
        if now == self.taken || !is_settled {
            return None;
        }
        self.taken = now;
        Some((self.path.clone(), self.content))
    }
}
