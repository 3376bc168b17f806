//! The access logs of sites, opened by the start or by a reload: one writer for each target, which sites share.

use larder_config::Config;
use larder_observe::log::sites::OpenSiteLog;
use larder_observe::log::{AccessLog, ErrorLog, LogTarget};
use std::collections::HashMap;
use std::sync::Arc;

/// The logs of the sites that have rules of their own.
#[derive(Clone, Default)]
pub struct OpenSiteLogs {
    /// By site.
    pub sites: Vec<OpenSiteLog>,
    /// By target, apart from the log of all sites.
    files: HashMap<LogTarget, Arc<AccessLog>>,
}

impl OpenSiteLogs {
    /// Opens the logs of a configuration; those of `before` are kept. `all` is the log of all sites, `counters` makes the
    /// counters of a new writer.
    ///
    /// # Errors
    /// The target that cannot be opened, and the reason.
    pub fn open(
        config: &Config,
        all: &Arc<AccessLog>,
        before: &OpenSiteLogs,
        errors: &ErrorLog,
        mut counters: impl FnMut() -> Arc<larder_counters::Counters>,
    ) -> Result<Self, (LogTarget, std::io::Error)> {
        let mut opened = Self::default();
        for site in config.sites.iter().filter(|it| !it.log.are_default()) {
            let log = match site.log.target.clone().filter(|it| *it != config.log.access) {
                None => all.clone(),
                Some(target) => match opened.files.get(&target).or_else(|| before.files.get(&target)) {
                    Some(log) => log.clone(),
                    None => {
                        let log =
                            AccessLog::open(&target, config.log.format.clone(), counters(), errors.clone());
                        Arc::new(log.map_err(|it| (target.clone(), it))?)
                    }
                },
            };
            if !Arc::ptr_eq(&log, all)
                && let Some(target) = &site.log.target
            {
                opened.files.insert(target.clone(), log.clone());
            }
            let mut rules = site.log.clone();
            // That of all sites may have changed since the writer was opened.
            rules.format.get_or_insert_with(|| config.log.format.clone());
            let name = site.hosts.first().map_or_else(String::new, ToString::to_string);
            opened.sites.push(OpenSiteLog { site: name, rules, log });
        }
        Ok(opened)
    }

    /// The writers, apart from the log of all sites.
    pub fn files(&self) -> impl Iterator<Item = &Arc<AccessLog>> {
        self.files.values()
    }
}
