//! The state of all certificates, for operators: written by `server::tls` and `server::acme`, read by the admin.

use larder_semantics::certificate_renewal::{ExpiryState, Validity};
use larder_transport::tls::certificates::Certificate;
use larder_transport::tls::unknown_names::UnknownNames;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The state of all certificates, for operators. Of the main thread.
#[derive(Default)]
pub struct CertificateRegistry {
    /// The certificates in use.
    pub shown: RefCell<Vec<ShownCertificate>>,
    /// The names of `tls.acme`.
    pub managed: RefCell<Vec<ManagedCertificate>>,
    /// Why the folder of `tls.acme` cannot be used.
    pub folder_error: RefCell<Option<String>>,
    /// A certificate was obtained that is not in use yet.
    pub is_changed: Cell<bool>,
    /// The names that clients requested and no certificate has.
    pub unknown_names: RefCell<Arc<UnknownNames>>,
}

impl CertificateRegistry {
    /// Forgets the names of `tls.acme`.
    pub(crate) fn forget_managed(&self) {
        self.managed.borrow_mut().clear();
        self.folder_error.replace(None);
    }
}

/// A certificate in use.
pub struct ShownCertificate {
    /// The certificate as it was read.
    pub certificate: Certificate,
    /// Its source.
    pub source: CertificateSource,
    /// The remaining days as last logged.
    pub(crate) reported: Option<i64>,
}

impl ShownCertificate {
    /// Whether it is valid.
    #[must_use]
    pub fn state(&self, now: i64) -> ExpiryState {
        let validity = self.certificate.validity();
        ExpiryState::of(Some(validity), self.source.warning(validity), now)
    }
}

/// The rest of the lifetime of a certificate that larder does not renew below which an operator is warned, seconds.
const SOON: i64 = 14 * 86_400;

/// The source of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// `tls.certificates`.
    File,
    /// `tls.acme`.
    Acme,
    /// `tls.self_signed`.
    SelfSigned,
}

impl CertificateSource {
    /// The rest of the lifetime of a certificate below which an operator is warned, seconds.
    fn warning(self, validity: Validity) -> i64 {
        match self {
            CertificateSource::Acme => validity.warning(),
            CertificateSource::File | CertificateSource::SelfSigned => SOON,
        }
    }

    /// Its name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CertificateSource::File => "file",
            CertificateSource::Acme => "acme",
            CertificateSource::SelfSigned => "self-signed",
        }
    }
}

/// A name of `tls.acme`. Times are seconds since the Unix epoch.
pub struct ManagedCertificate {
    /// The name.
    pub name: String,
    /// The validity of its certificate; `None` without one.
    pub validity: Option<Validity>,
    /// Its planned renewal.
    pub renews: Option<i64>,
    /// The next attempt to get one.
    pub next_attempt: i64,
    /// An attempt is in progress.
    pub is_busy: bool,
    /// The directory of the CA that issued it; empty if none did.
    pub authority: String,
    /// Consecutive failures.
    pub failures: u32,
    /// The last failure; empty after a success.
    pub error: String,
}

impl ManagedCertificate {
    /// Whether its certificate is valid.
    #[must_use]
    pub fn state(&self, now: i64) -> ExpiryState {
        let warning = self.validity.map_or(0, |it| CertificateSource::Acme.warning(it));
        ExpiryState::of(self.validity, warning, now)
    }
}
