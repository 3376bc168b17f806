//! A reload: everything that can fail is done before anything is changed; keys that require a start are named.

use crate::start::{Running, audit_target, cannot, open_site_logs};
use crate::{path_rules, privileges};
use larder_admin::Admin;
use larder_config::files_in_force::FilesInForce;
use larder_config::{Config, Problem};
use larder_server::addresses::OpenAddresses;
use larder_server::live::Live;
use larder_server::site_logs::OpenSiteLogs;
use larder_server::{loop_check, tls};
use std::sync::Arc;

/// A configuration that is ready to be put in force.
pub struct Prepared {
    /// It, with its resources.
    pub live: Arc<Live>,
    /// The addresses for clients.
    pub addresses: OpenAddresses,
    /// The access logs of sites.
    pub site_logs: OpenSiteLogs,
    /// The changed keys that wait for the next start.
    pub waiting: Vec<Problem>,
}

impl Running {
    /// Reads the configuration again, and opens what is new in it. Logs and certificates are switched last; after an error
    /// the running configuration is unchanged.
    ///
    /// # Errors
    /// One sentence, or all errors of the configuration.
    pub fn prepare(&self, admin: Option<&Admin>) -> Result<Prepared, String> {
        let user = self.orders.borrow().live.config.service_user.clone();
        self.prepare_as_user(admin).map_err(|it| privileges::advised(it, user.as_ref()))
    }

    fn prepare_as_user(&self, admin: Option<&Admin>) -> Result<Prepared, String> {
        path_rules::check(&self.plan, path_rules::RuleCheck::Reload)?;
        let old = self.orders.borrow().clone();
        let new = self.plan.load_over(&FilesInForce::of(&old.live.config)).map_err(|it| it.to_string())?;
        let (new, waiting) = new.keep_from(&old.live.config);
        loop_check::check(&new, self.admin_at)?;
        let addresses = OpenAddresses::open(&new, self.shared.workers, &old.addresses)?;
        let live =
            Live::open(new, &self.shared.coders, &self.shared.own, self.shared.workers, Some(&old.live))?;
        let (log, errors, totals) = (&self.log, &self.errors, &self.shared.totals);
        let site_logs = open_site_logs(&live.config, log, &old.site_logs, errors, totals)?;
        self.switch_logs(&old.live.config, &live.config, admin)?;
        self.secure(&live.config).inspect_err(|_| {
            // The old targets were open until now.
            let _ = self.switch_logs(&live.config, &old.live.config, admin);
        })?;
        Ok(Prepared { live, addresses, site_logs, waiting })
    }

    /// Takes over the certificates, which are opened with the first address that uses TLS.
    fn secure(&self, new: &Config) -> Result<(), String> {
        let mut certificates = self.certificates.borrow_mut();
        match &*certificates {
            Some(certificates) => certificates.apply_config(new, &self.errors),
            None => {
                *certificates = tls::CertificateStore::open(new, &self.errors, &self.registry)?;
                Ok(())
            }
        }
    }

    /// Switches the logs to their new targets; after an error all have their old ones.
    fn switch_logs(&self, old: &Config, new: &Config, admin: Option<&Admin>) -> Result<(), String> {
        let access = |to: &Config| {
            let switched = self.log.retarget(&to.log.access, to.log.format.clone());
            switched.map_err(|it| cannot("access log", &to.log.access, &it))
        };
        let error = |to: &Config| {
            let changed = old.log.error != new.log.error;
            let switched = if changed { self.errors.retarget(&to.log.error) } else { Ok(()) };
            switched.map_err(|it| cannot("error log", &to.log.error, &it))
        };
        let audit = |to: &Config| {
            let target = |it: &Config| audit_target(it, self.admin_at);
            let Some(admin) = admin.filter(|_| target(old) != target(new)) else { return Ok(()) };
            admin.audit.retarget(&target(to)).map_err(|it| cannot("audit log", &target(to), &it))
        };
        let switched = access(new).and_then(|()| error(new)).and_then(|()| audit(new));
        if switched.is_err() {
            // The old targets were open until now.
            let _ = access(old).and_then(|()| error(old));
        }
        switched
    }
}
