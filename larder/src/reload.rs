//! A reload: everything that can fail is done before anything is changed; keys that require a start are named.

use crate::start::{Running, audit_target, cannot, open_site_logs};
use crate::{landlock_rules, privileges};
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
    /// Reads the configuration again, and opens what is new in it. Certificates and logs are switched last, when nothing else can
    /// fail; after an error the running configuration is unchanged.
    ///
    /// # Errors
    /// One sentence, or all errors of the configuration.
    pub fn prepare(&self, admin: Option<&Admin>) -> Result<Prepared, String> {
        let user = self.orders.borrow().live.config.service_user.clone();
        self.prepare_as_user(admin).map_err(|it| privileges::advised(it, user.as_ref()))
    }

    fn prepare_as_user(&self, admin: Option<&Admin>) -> Result<Prepared, String> {
        landlock_rules::check(&self.plan, landlock_rules::RuleCheck::Reload)?;
        let old = self.orders.borrow().clone();
        let new = self.plan.load_over(&FilesInForce::of(&old.live.config)).map_err(|it| it.to_string())?;
        let (new, waiting) = new.keep_from(&old.live.config);
        loop_check::check(&new, self.admin_at)?;
        let addresses = OpenAddresses::open(&new, self.shared.workers, &old.addresses)?;
        let live =
            Live::open(new, &self.shared.coders, &self.shared.own, self.shared.workers, Some(&old.live))?;
        let (log, errors, totals) = (&self.log, &self.errors, &self.shared.totals);
        let site_logs = open_site_logs(&live.config, log, &old.site_logs, errors, totals)?;
        let switch_logs = self.open_logs(&old.live.config, &live.config, admin)?;
        self.secure(&live.config)?;
        switch_logs();
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

    /// Opens the new targets of the logs. The result switches to them.
    fn open_logs<'a>(
        &'a self,
        old: &Config,
        new: &Config,
        admin: Option<&'a Admin>,
    ) -> Result<impl FnOnce() + use<'a>, String> {
        let (access, error) = (&new.log.access, &new.log.error);
        let to_access = self.log.prepare(access, new.log.format.clone());
        let to_access = to_access.map_err(|it| cannot("access log", access, &it))?;
        let to_error = (*error != old.log.error).then(|| self.errors.prepare(error)).transpose();
        let to_error = to_error.map_err(|it| cannot("error log", error, &it))?;
        let (before, audit) = (audit_target(old, self.admin_at), audit_target(new, self.admin_at));
        let to_audit = admin.filter(|_| before != audit).map(|it| it.audit.prepare(&audit)).transpose();
        let to_audit = to_audit.map_err(|it| cannot("audit log", &audit, &it))?;
        Ok(move || {
            to_access();
            to_error.into_iter().for_each(|it| it());
            to_audit.into_iter().for_each(|it| it());
        })
    }
}
