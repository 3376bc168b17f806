//! Signed URLs of a route, checked: `access.signed`.

use larder_stdx::secret::Secret;
use larder_wire::signed_url::{SecureLinkText, SignedFault, SignedNames, SignedRequest, verify};

/// The signatures that a route accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedConfig {
    /// The secrets; the first one signs.
    pub secrets: Vec<Secret>,
    /// The names of the parameters.
    pub names: SignedNames,
    /// The form of the signature.
    pub style: SignedStyle,
}

/// The form of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedStyle {
    /// HMAC-SHA256 of all that a URL says.
    Larder,
    /// The MD5 of this text, as for `secure_link` of nginx.
    NginxMd5(SecureLinkText),
}

impl SignedConfig {
    /// Whether every URL is valid for one client only.
    #[must_use]
    pub fn reads_client(&self) -> bool {
        matches!(&self.style, SignedStyle::NginxMd5(text) if text.reads_client())
    }

    /// Verifies the URL of a request; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The first fault.
    pub fn verify(&self, request: &SignedRequest<'_>, now: u64) -> Result<(), SignedFault> {
        let secrets: Vec<&str> = self.secrets.iter().map(Secret::expose).collect();
        match &self.style {
            SignedStyle::Larder => verify(request, &self.names, &secrets, now),
            SignedStyle::NginxMd5(text) => text.verify(request, &self.names, &secrets, now),
        }
    }
}
