//! The certificates of the running server: read at the start, and again when their files change; expiring ones are
//! logged.

use super::acme::AcmeFolder;
use super::certificate_registry::{CertificateRegistry, CertificateSource, ShownCertificate};
use super::config_watch::FileWatch;
use super::own_certificate::own_certificate;
use larder_config::tls::TlsConfig as Settings;
use larder_config::{Config, HostPattern, SiteConfig};
use larder_counters::Counters;
use larder_observe::log::{ErrorLog, Level};
use larder_semantics::certificate_renewal::ExpiryState;
use larder_stdx::clock;
use larder_transport::tls::certificates::Certificate;
use larder_transport::tls::{NamePattern, ServerTls, TlsRules};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

const DAY: i64 = 86_400;

/// The TLS state of the main thread.
pub struct CertificateStore {
    tls: Arc<ServerTls>,
    /// The generated one.
    own: RefCell<Option<Certificate>>,
    registry: Rc<CertificateRegistry>,
    watches: RefCell<HashMap<PathBuf, FileWatch>>,
}

impl CertificateStore {
    /// Reads the configured certificates; `None` if no address uses TLS. Warnings go to the error log.
    ///
    /// # Errors
    /// One sentence.
    pub fn open(
        config: &Config,
        errors: &ErrorLog,
        registry: &Rc<CertificateRegistry>,
    ) -> Result<Option<Self>, String> {
        let Some(settings) = &config.tls else { return Ok(None) };
        let own = settings.self_signed.then(|| own_certificate(errors)).transpose()?;
        let watches = RefCell::new(watches(config, settings));
        let certificates = read(settings, own.as_ref(), errors)?;
        let tls = ServerTls::new(&only(&certificates), rules(config, settings))?;
        registry.shown.replace(certificates);
        registry.unknown_names.replace(tls.unknown_names());
        Ok(Some(Self { tls, own: RefCell::new(own), registry: registry.clone(), watches }))
    }

    /// The TLS settings of workers.
    pub fn tls(&self) -> Arc<ServerTls> {
        self.tls.clone()
    }

    /// Continues with the ticket keys of the process that this one replaces. Without them its clients make one full handshake each, and
    /// the log has the reason.
    pub fn take_ticket_keys(&self, keys: Option<&[u8]>, errors: &ErrorLog) {
        let none = Err("this version of the running larder does not hand them over");
        if let Err(why) = keys.map_or(none, |it| self.tls.take_ticket_keys(it)) {
            let now = "each client makes a full handshake once";
            errors.event(Level::Warn, "ticket-keys-not-handed-over", &[("why", why), ("now", now)]);
        }
    }

    /// The text at the start by which a client can identify this larder.
    pub fn identity(&self) -> String {
        let own = self.own.borrow();
        let Some(own) = &*own else { return String::new() };
        format!("self-signed certificate for {} (SHA-256 {})\n", own.names.join(", "), own.fingerprint())
    }

    /// Takes over the certificates of a new configuration.
    ///
    /// # Errors
    /// One sentence; the state is unchanged.
    pub fn apply_config(&self, config: &Config, errors: &ErrorLog) -> Result<(), String> {
        let Some(settings) = &config.tls else { return Ok(()) };
        let watches = watches(config, settings);
        let own = match (settings.self_signed, &*self.own.borrow()) {
            (false, _) => None,
            (true, Some(own)) => Some(own.clone()),
            (true, None) => Some(own_certificate(errors)?),
        };
        let certificates = read(settings, own.as_ref(), errors)?;
        self.tls.replace(&only(&certificates), rules(config, settings))?;
        self.watches.replace(watches);
        self.own.replace(own);
        self.registry.shown.replace(certificates);
        Ok(())
    }

    /// Whether a file has changed since it was read, or a certificate was obtained.
    pub fn changed(&self) -> bool {
        let is_obtained = self.registry.is_changed.take();
        // Every file is checked: a settled change is reported only once.
        self.watches.borrow_mut().values_mut().filter_map(|it| it.changed().then_some(())).count() > 0
            || is_obtained
    }

    /// Logs expiring certificates, and updates the gauge of remaining seconds.
    pub fn look(&self, errors: &ErrorLog, counters: &Counters) {
        let now = now();
        let mut shown = self.registry.shown.borrow_mut();
        let least = shown.iter().map(|it| it.certificate.until - now).min().unwrap_or(0);
        counters.tls_expires_seconds.set_shared(u64::try_from(least).unwrap_or(0));
        for shown in shown.iter_mut() {
            let left = (shown.certificate.until - now).div_euclid(DAY);
            let is_soon = matches!(shown.state(now), ExpiryState::Expiring | ExpiryState::Expired);
            // Once a day.
            if is_soon && shown.reported != Some(left) {
                shown.reported = Some(left);
                let days = left.max(0).to_string();
                let values = [("certificate", shown.certificate.file.as_str()), ("days_left", &days)];
                errors.event(Level::Warn, "certificate-expires", &values);
            }
        }
    }
}

fn now() -> i64 {
    i64::try_from(clock::wall().0).unwrap_or(i64::MAX)
}

/// The rules of handshakes of all sites.
fn rules(config: &Config, settings: &Settings) -> TlsRules {
    let name = |it: &HostPattern| match it {
        HostPattern::Exact(name) => NamePattern::Exact(name.clone()),
        HostPattern::Below(rest) => NamePattern::Below(rest.clone()),
        HostPattern::Any => NamePattern::Any,
    };
    let of_site = |it: &SiteConfig| Some((it.hosts.iter().map(name).collect(), it.tls.clone()?));
    let sites = config.sites.iter().filter_map(of_site).collect();
    TlsRules { all: settings.rules.clone(), sites, early_data: settings.early_data }
}

fn watches(config: &Config, settings: &Settings) -> HashMap<PathBuf, FileWatch> {
    let files = settings.certificates.iter().flat_map(|it| {
        [Some(&it.cert), Some(&it.key), it.ocsp.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>()
    });
    let of_sites = config.sites.iter().filter_map(|it| it.tls.as_ref());
    let rules = of_sites.chain([&settings.rules]);
    let files = files.chain(rules.filter_map(|it| it.client.file().map(Path::to_owned)));
    files.map(|it| (it.clone(), FileWatch::new(it))).collect()
}

fn only(certificates: &[ShownCertificate]) -> Vec<Certificate> {
    certificates.iter().map(|it| it.certificate.clone()).collect()
}

fn read(
    settings: &Settings,
    own: Option<&Certificate>,
    errors: &ErrorLog,
) -> Result<Vec<ShownCertificate>, String> {
    let shown = |source| move |certificate| ShownCertificate { certificate, source, reported: None };
    let mut all = Vec::new();
    for files in &settings.certificates {
        let (certificate, odd) = Certificate::read(files, now())?;
        for why in odd {
            errors.event(Level::Warn, "certificate-warning", &[("why", &why)]);
        }
        all.push(shown(CertificateSource::File)(certificate));
    }
    all.extend(own.cloned().map(shown(CertificateSource::SelfSigned)));
    let Some(acme) = &settings.acme else { return Ok(all) };
    let folder = AcmeFolder::new(acme.folder.clone());
    for name in &acme.names {
        match folder.certificate(name) {
            Ok(found) => all.extend(found.map(shown(CertificateSource::Acme))),
            // The name gets a new one; the others are served.
            Err(why) => errors.event(Level::Warn, "certificate-warning", &[("why", &why)]),
        }
    }
    Ok(all)
}
