//! Certificates of other nodes, and those for other nodes.

use super::AcmeContext;
use super::attempts::{Attempts, IssuedCertificate, date_of};
use super::fleet::{AcmeFleet, SharedCertificate};
use super::order;
use super::wall;
use larder_config::tls::AcmeConfig;
use larder_observe::log::Level;
use larder_semantics::certificate_renewal::Validity;
use larder_transport::tls::certificates::Certificate;

/// The interval at which certificates are given to the other nodes again, seconds: memcached may forget them.
const OFFER: i64 = 3600;

impl Attempts {
    /// Whether a name is wanted and nothing is in progress for it; it is busy then.
    pub fn occupy(&self, config: &AcmeConfig, name: &str) -> bool {
        let mut names = self.names.borrow_mut();
        let is_wanted = config.names.binary_search_by(|it| it.as_str().cmp(name)).is_ok();
        let found = names.get_mut(name).filter(|it| is_wanted && !it.is_busy);
        found.map(|it| it.is_busy = true).is_some()
    }

    /// Takes the certificate of a name that another node no longer orders.
    pub async fn receive(&self, fleet: &AcmeFleet, name: &str) {
        self.take_over(fleet, name).await;
        self.set_idle(name);
    }

    /// Stores the certificate of another node if it is better than the present one; returns whether it was.
    pub async fn take_over(&self, fleet: &AcmeFleet, name: &str) -> bool {
        let Some(shared) = fleet.certificate(name).await else { return false };
        let present = self.folder.certificate(name).ok().flatten().map(|it| it.validity());
        let Some(validity) = better(name, &shared.pem, present, wall()) else { return false };
        if let Err(why) = self.folder.keep_certificate(name, &shared.pem) {
            self.note(Err(why));
            return false;
        }
        let before = self.names.borrow().get(name).map(|it| it.state.clone()).unwrap_or_default();
        self.record(name, before.issued(&shared.authority), Some(validity));
        let AcmeContext { errors, registry, .. } = &self.context;
        let values = [("name", name), ("until", &date_of(validity.until))];
        errors.event(Level::Info, "certificate-received", &values);
        registry.is_changed.set(true);
        true
    }

    /// Gives the other nodes a certificate that this one has obtained.
    pub async fn share(&self, fleet: &AcmeFleet, name: &str, got: &IssuedCertificate) {
        if let Some(it) = self.shared(name, &got.authority, got.validity) {
            fleet.share(&it).await;
        }
    }

    /// Whether an hour has passed since this was last true.
    pub fn is_time_to_offer(&self, now: i64) -> bool {
        let next = self.next_offer.get();
        let is_due = now >= next || next > now.saturating_add(OFFER);
        if is_due {
            self.next_offer.set(now.saturating_add(OFFER));
        }
        is_due
    }

    /// Gives the other nodes the certificates of this one that memcached does not have.
    pub async fn offer(&self, fleet: &AcmeFleet, config: &AcmeConfig) {
        for name in &config.names {
            let found = self.names.borrow().get(name).map(|it| (it.state.authority.clone(), it.validity));
            let Some((authority, Some(validity))) = found else { continue };
            if validity.until > wall()
                && let Some(it) = self.shared(name, &authority, validity)
            {
                fleet.offer(&it).await;
            }
        }
    }

    fn shared(&self, name: &str, authority: &str, validity: Validity) -> Option<SharedCertificate> {
        let pem = self.folder.pem(name)?;
        let (name, authority) = (name.to_owned(), authority.to_owned());
        Some(SharedCertificate { name, authority, until: validity.until, pem })
    }
}

/// The validity of a certificate of another node if it is valid for the name, has a matching key, and ends later than the present one.
fn better(name: &str, pem: &str, present: Option<Validity>, now: i64) -> Option<Validity> {
    order::usable(name, pem, present, now).ok()?;
    let it = Certificate::of_pem(pem.as_bytes(), pem.as_bytes(), None, "", "").ok()?.validity();
    let is_later = present.is_none_or(|present| it.until > present.until);
    // Its start may be in the future by the clock of this machine, as that of an own one.
    (is_later && now < it.until).then_some(it)
}
