//! The kinds of credentials that a route may demand, behind one interface: a look at the request, and a verification that takes
//! time. Their combination is in `super`.

use super::AccessState;
use super::basic::BasicAuth;
use super::forward::ForwardAuth;
use super::issuer::IssuerKeys;
use super::jwt::JwtAuth;
use super::signed::SignedUrls;
use super::verification::{Checked, UnverifiedCredential, ValidCredentials, VerifyContext};
use larder_config::access::AccessConfig;
use larder_counters::Counters;
use larder_semantics::field;
use larder_semantics::request_view::RequestView;
use larder_semantics::server_state::BrokenFileFact;
use larder_semantics::unambiguous_target::UnambiguousTarget;
use larder_transport::Synthetic;
use std::sync::Arc;

/// One kind of credentials of a route.
pub(super) enum Credential {
    /// `access.basic`.
    Basic(BasicAuth),
    /// `access.jwt`.
    Jwt(JwtAuth),
    /// `access.signed`.
    Signed(SignedUrls),
    /// `access.forward`.
    Forward(ForwardAuth),
}

/// The credentials of a route, in the order in which they are looked at: the cheapest first.
pub(super) fn of(config: &AccessConfig, state: &Arc<AccessState>) -> Vec<Credential> {
    let signed = config.signed.as_ref().map(|it| Credential::Signed(SignedUrls::new(it, state.clone())));
    let passes = config.passes_authorization;
    let jwt = config.jwt.as_ref().map(|it| Credential::Jwt(JwtAuth::new(it, passes, state.clone())));
    let basic = config.basic.as_ref().map(|it| Credential::Basic(BasicAuth::new(it, state.clone())));
    let mut all: Vec<Credential> = signed.into_iter().chain(jwt).chain(basic).collect();
    if let Some(it) = &config.forward {
        let is_spent = !passes && all.iter().any(Credential::is_in_authorization);
        all.push(Credential::Forward(ForwardAuth::new(it, state.clone(), !is_spent)));
    }
    all
}

impl Credential {
    /// The keys that are fetched for it.
    pub fn issuer(&self) -> Option<&Arc<IssuerKeys>> {
        match self {
            Credential::Jwt(it) => it.issuer(),
            Credential::Basic(_) | Credential::Signed(_) | Credential::Forward(_) => None,
        }
    }

    /// Reads its file again if it was changed.
    pub fn look(&self, counters: &Counters) {
        match self {
            Credential::Basic(it) => it.look(Some(counters)),
            Credential::Jwt(it) => it.look(Some(counters)),
            Credential::Signed(_) | Credential::Forward(_) => {}
        }
    }

    /// Why its file of users or keys cannot be used, if so.
    pub fn broken(&self) -> Option<BrokenFileFact> {
        match self {
            Credential::Basic(it) => it.broken(),
            Credential::Jwt(it) => it.broken(),
            Credential::Signed(_) | Credential::Forward(_) => None,
        }
    }

    /// Whether clients send it in `Authorization`.
    pub fn is_in_authorization(&self) -> bool {
        match self {
            Credential::Basic(_) => true,
            Credential::Jwt(it) => it.is_in_authorization(),
            Credential::Signed(_) | Credential::Forward(_) => false,
        }
    }

    /// Whether the origin gets something of the request that may identify the client to this, apart from `Authorization`.
    pub fn may_identify(&self, view: &RequestView<'_>) -> bool {
        match self {
            Credential::Basic(_) | Credential::Signed(_) => false,
            Credential::Jwt(it) => it.may_identify(view),
            Credential::Forward(_) => field::first(view.fields, "cookie").is_some(),
        }
    }

    /// The names of fields by which larder tells origins who the client is.
    pub fn identifying(&self) -> Vec<String> {
        match self {
            Credential::Basic(_) | Credential::Signed(_) => Vec::new(),
            Credential::Jwt(it) => it.sent().cloned().collect(),
            Credential::Forward(it) => it.removed(),
        }
    }

    /// The names of fields that a client cannot send on the route, admitted in whatever way: larder alone gives them to origins, or
    /// uses them up.
    pub fn removed(&self) -> Vec<String> {
        match self {
            Credential::Basic(_) | Credential::Signed(_) => Vec::new(),
            Credential::Jwt(it) => it.removed(),
            Credential::Forward(it) => it.removed(),
        }
    }

    /// The target of a request without the credentials that are part of it, and in the form about which a service decides; `None` if
    /// it stays as it is.
    pub fn stripped(&self, target: &str) -> Option<String> {
        match self {
            Credential::Basic(_) | Credential::Jwt(_) => None,
            Credential::Signed(it) => it.stripped(target),
            Credential::Forward(_) => UnambiguousTarget::of(target).filter(|it| it.replaces).map(|it| it.uri),
        }
    }

    /// Looks at the credentials of a request.
    pub fn check(&self, view: &RequestView<'_>, counters: &Counters) -> Checked {
        match self {
            Credential::Basic(it) => it.check(view.fields, view.client, counters),
            Credential::Jwt(it) => it.check(view, counters),
            Credential::Signed(it) => it.check(view),
            Credential::Forward(it) => it.check(view),
        }
    }

    /// Verifies those that `check` could not judge at once.
    pub async fn verify(
        &self,
        it: UnverifiedCredential,
        view: &RequestView<'_>,
        context: &VerifyContext<'_>,
    ) -> Result<ValidCredentials, Synthetic> {
        match (self, it) {
            (Credential::Basic(basic), UnverifiedCredential::Password(it)) => basic.verify(it).await,
            (Credential::Forward(forward), UnverifiedCredential::Forward(it)) => {
                forward.verify(it, view, context).await
            }
            (Credential::Jwt(jwt), UnverifiedCredential::Token) => jwt.verify(view).await,
            // Each is verified by the credential that found it; signatures never have to be.
            _ => Err(super::refused()),
        }
    }
}

/// The one response to a request with several invalid credentials: a limit that was reached, otherwise a challenge, with those of
/// both.
pub(super) fn one_refusal(before: Option<Synthetic>, page: Synthetic) -> Synthetic {
    let Some(before) = before else { return page };
    let rank = |it: &Synthetic| match it.status {
        429 | 503 => 0,
        401 => 1,
        _ => 2,
    };
    if before.status == 401 && page.status == 401 {
        let challenges: Vec<_> =
            page.fields.iter().filter(|it| it.is("www-authenticate")).map(|it| it.value.to_vec()).collect();
        return challenges.into_iter().fold(before, |it, value| it.with("WWW-Authenticate", value));
    }
    if rank(&page) < rank(&before) { page } else { before }
}
