//! The kinds of credentials that a route may demand, behind one interface: a look at the request, and a verification that takes
//! time. Their combination is in `super`.

use super::AccessState;
use super::basic::{BasicAuth, UnverifiedPassword};
use larder_config::access::AccessConfig;
use larder_counters::Counters;
use larder_semantics::request_view::RequestView;
use larder_transport::Synthetic;
use std::sync::Arc;

/// One kind of credentials of a route.
pub(super) enum Credential {
    /// `access.basic`.
    Basic(BasicAuth),
}

/// The findings of valid credentials.
#[derive(Default)]
pub(super) struct Proven {
    /// The identity of the client for keys, in the form of [`super::basic::identity`].
    pub identity: Option<Arc<str>>,
    /// Fields that the request gets in place of the client's.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The target without the credentials that were part of it.
    pub target: Option<String>,
}

impl Proven {
    /// Only an identity.
    pub fn of(identity: Arc<str>) -> Self {
        Self { identity: Some(identity), ..Self::default() }
    }
}

/// The result of a look at the credentials of a request.
pub(super) enum Checked {
    /// They are valid.
    Valid(Proven),
    /// They have to be verified.
    Unknown(UnverifiedCredential),
    /// There are none, or no valid ones.
    Invalid(Synthetic),
}

/// Credentials that have to be verified.
pub(super) enum UnverifiedCredential {
    /// A password.
    Password(UnverifiedPassword),
}

/// The credentials of a route, in the order in which they are looked at: the cheapest first.
pub(super) fn of(config: &AccessConfig, state: &Arc<AccessState>) -> Vec<Credential> {
    let basic = config.basic.as_ref().map(|it| Credential::Basic(BasicAuth::new(it, state.clone())));
    basic.into_iter().collect()
}

impl Credential {
    /// Whether clients send it in `Authorization`.
    pub fn is_in_authorization(&self) -> bool {
        match self {
            Credential::Basic(_) => true,
        }
    }

    /// Looks at the credentials of a request.
    pub fn check(&self, view: &RequestView<'_>, counters: &Counters) -> Checked {
        match self {
            Credential::Basic(it) => it.check(view.fields, view.client, counters),
        }
    }

    /// Verifies those that `check` could not judge at once.
    pub async fn verify(&self, it: UnverifiedCredential) -> Result<Proven, Synthetic> {
        match (self, it) {
            (Credential::Basic(basic), UnverifiedCredential::Password(it)) => {
                basic.verify(it).await.map(Proven::of)
            }
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
