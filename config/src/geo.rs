//! The databases of countries and autonomous systems: `geoip`. Lookups are in `larder_semantics::geo`.

use crate::include::read_bytes;
use larder_semantics::geo::GeoDatabase;
use std::path::{Path, PathBuf};

/// The largest file of a database, in bytes: the largest known ones have a third of it.
const LARGEST: u64 = 1 << 30;

/// The files of the databases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GeoConfig {
    /// `geoip.database`: the one of countries.
    pub countries: Option<PathBuf>,
    /// `geoip.asn_database`: the one of autonomous systems.
    pub numbers: Option<PathBuf>,
}

/// The values of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeoContent {
    /// Countries.
    Countries,
    /// Numbers of autonomous systems.
    Numbers,
}

impl GeoContent {
    /// Reads a database of these values into memory.
    ///
    /// # Errors
    /// The file cannot be read, or is no such database; the end of a sentence.
    pub fn read(self, path: &Path) -> Result<GeoDatabase, String> {
        let database = GeoDatabase::parse(read_bytes(path, LARGEST)?)?;
        match self {
            GeoContent::Countries if !database.has_countries() => {
                Err("it has no countries; use a database of countries or cities".to_owned())
            }
            GeoContent::Numbers if !database.has_numbers() => {
                Err("it has no numbers of autonomous systems; use an ASN database".to_owned())
            }
            GeoContent::Countries | GeoContent::Numbers => Ok(database),
        }
    }
}
