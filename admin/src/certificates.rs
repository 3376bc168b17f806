//! The endpoint of certificates: those in use, and the names of `tls.acme` with their renewals and failures.

use super::{Admin, AdminResponse};
use larder_server::certificate_registry::{CertificateSource, ManagedCertificate};
use larder_stdx::clock;
use serde_json::{Value, json};

impl Admin {
    /// `GET /api/v1/certificates`.
    pub(super) fn certificates(&self) -> AdminResponse {
        let error = self.certificates.folder_error.borrow().clone();
        let all = self.certificates_json();
        AdminResponse::Json(200, json!({ "certificates": all, "folder_error": error }))
    }

    /// Every certificate in use, and every name without one.
    pub(super) fn certificates_json(&self) -> Vec<Value> {
        let now = i64::try_from(clock::wall().0).unwrap_or(i64::MAX);
        let shown = self.certificates.shown.borrow();
        let of_files = shown.iter().filter(|it| it.source != CertificateSource::Acme).map(|it| {
            let certificate = &it.certificate;
            json!({
                "names": certificate.names, "source": it.source.name(), "file": certificate.file,
                "state": it.state(now).name(), "issuer": certificate.issuer,
                "from": certificate.from, "until": certificate.until,
            })
        });
        let issuer = |name: &String| {
            let of_acme = shown.iter().filter(|it| it.source == CertificateSource::Acme);
            of_acme.map(|it| &it.certificate).find(|it| it.names.contains(name)).map(|it| it.issuer.as_str())
        };
        let managed = |it: &ManagedCertificate| managed(it, issuer(&it.name), now);
        of_files.chain(self.certificates.managed.borrow().iter().map(managed)).collect()
    }
}

fn managed(it: &ManagedCertificate, issuer: Option<&str>, now: i64) -> Value {
    let given = |it: &str| Some(it.to_owned()).filter(|it| !it.is_empty());
    json!({
        "names": [it.name], "issuer": issuer, "source": CertificateSource::Acme.name(), "from": it.validity.map(|it| it.from),
        "until": it.validity.map(|it| it.until), "renews": it.renews, "next_attempt": it.next_attempt,
        "in_progress": it.is_busy, "authority": given(&it.authority), "failures": it.failures,
        "error": given(&it.error), "state": it.state(now).name(),
    })
}
