//! Keys that a running larder cannot take over: a reload keeps their values, names them, and takes over the rest.

use super::{Config, Problem};
use crate::kind::ConfigValue;

/// A value that requires a restart.
#[derive(Clone, Debug)]
pub struct StartValue {
    /// Its key.
    pub key: &'static str,
    /// The value.
    pub value: ConfigValue,
    /// The value for people: without secrets, and with variables in place of their values.
    pub shown: String,
}

impl PartialEq for StartValue {
    fn eq(&self, other: &Self) -> bool {
        (self.key, &self.value) == (other.key, &other.value)
    }
}

impl Eq for StartValue {}

impl Config {
    /// Gives the keys that require a start the values of `running`; returns those that differ, each with its place.
    #[must_use]
    pub fn keep_from(self, running: &Config) -> (Config, Vec<Problem>) {
        let changed = self.at_start.iter().zip(&running.at_start).filter(|(new, old)| new != old);
        let problem = |(it, _): (&StartValue, _)| Problem {
            source: self.decided.by(it.key),
            key: super::dotted(it.key),
            text: "takes effect at the next start; its old value stays in force until then".to_owned(),
        };
        let waiting: Vec<Problem> = changed.map(problem).collect();
        let admin = super::AdminConfig {
            listen: running.admin.listen.clone(),
            socket: running.admin.socket.clone(),
            token_file: running.admin.token_file.clone(),
            history: running.admin.history.clone(),
            overlay_size: self.admin.overlay_size.min(running.ram.budget / 4),
            ..self.admin
        };
        let kept = Config {
            workers: running.workers,
            service_user: running.service_user.clone(),
            sandbox: running.sandbox,
            ram: running.ram,
            coding: running.coding,
            spool: running.spool.clone(),
            disk: running.disk.clone(),
            fleet: running.fleet.clone(),
            disk_source: running.disk_source.clone(),
            telemetry: running.telemetry.clone(),
            at_start: running.at_start.clone(),
            admin,
            ..self
        };
        (kept, waiting)
    }
}
