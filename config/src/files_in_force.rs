//! The files of users, keys and countries whose content a running larder has: a reload keeps the content of one that is broken by then,
//! since the rest of the configuration may be what shuts clients out. At a start, and for a new path, a broken file is an error.

use crate::Config;
use crate::access::KeyFile;
use crate::geo::{GeoConfig, GeoContent};
use larder_wire::jwt::JwtKeys;
use std::path::{Path, PathBuf};

/// The files whose content is in force; the default is none.
#[derive(Clone, Debug, Default)]
pub struct FilesInForce {
    users: Vec<PathBuf>,
    keys: Vec<(KeyFile, JwtKeys)>,
    databases: GeoConfig,
}

impl FilesInForce {
    /// Those of the configuration of a running larder.
    #[must_use]
    pub fn of(running: &Config) -> Self {
        let rules = || running.sites.iter().flat_map(|it| &it.routes).map(|it| &it.access);
        let users = rules().filter_map(|it| it.basic.as_ref()?.file.clone());
        let of_file = |it: &crate::access::JwtConfig| Some((it.file.clone()?, it.keys.clone()));
        Self {
            users: users.collect(),
            keys: rules().filter_map(|it| of_file(it.jwt.as_ref()?)).collect(),
            databases: running.geo.clone(),
        }
    }

    pub(crate) fn has_users(&self, path: &Path) -> bool {
        self.users.iter().any(|it| it == path)
    }

    pub(crate) fn keys(&self, file: &KeyFile) -> Option<JwtKeys> {
        self.keys.iter().find(|it| it.0 == *file).map(|it| it.1.clone())
    }

    pub(crate) fn has_database(&self, content: GeoContent, path: &Path) -> bool {
        let own = match content {
            GeoContent::Countries => &self.databases.countries,
            GeoContent::Numbers => &self.databases.numbers,
        };
        own.as_deref() == Some(path)
    }
}
