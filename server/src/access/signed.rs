//! Signed URLs (`access.signed`): a request with a valid signature is admitted, and its client stays unknown.

use super::AccessState;
use super::verification::{Checked, ValidCredentials};
use larder_config::access::SignedConfig;
use larder_semantics::request_view::RequestView;
use larder_stdx::clock;
use larder_transport::Synthetic;
use larder_wire::signed_url::{self, SignedFault, SignedRequest};
use std::sync::Arc;

/// The signatures that a route accepts.
pub(super) struct SignedUrls {
    config: SignedConfig,
    state: Arc<AccessState>,
}

impl SignedUrls {
    pub fn new(config: &SignedConfig, state: Arc<AccessState>) -> Self {
        Self { config: config.clone(), state }
    }

    /// Looks at the signature of a request.
    pub fn check(&self, view: &RequestView<'_>) -> Checked {
        let request = SignedRequest {
            method: view.method,
            host: view.host(),
            target: view.target,
            client: view.client,
        };
        match self.config.verify(&request, clock::wall().0) {
            Ok(()) => Checked::Valid(ValidCredentials::default()),
            Err(why) => {
                self.state.log_refused("signed", why.sentence());
                let text = match why {
                    SignedFault::Expired => "The link has expired.",
                    _ => "The link is not valid.",
                };
                Checked::Invalid(Synthetic::page(403, text).with("Cache-Control", "no-store"))
            }
        }
    }

    /// The target without the parameters of the signature.
    pub fn stripped(&self, target: &str) -> Option<String> {
        signed_url::stripped(target, &self.config.names)
    }
}
