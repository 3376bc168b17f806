//! The results of looking at credentials and of verifying them, for every kind. `credentials` chooses among the kinds.

use crate::internal_client::InternalClient;
use larder_counters::Counters;
use larder_gateway::route::Gateway;
use larder_transport::{Client, Synthetic};
use std::fmt::Write as _;
use std::sync::Arc;

/// The dependencies of the verification of credentials.
pub struct VerifyContext<'a> {
    /// The worker's counters.
    pub counters: &'a Counters,
    /// The worker's gateway.
    pub gateway: &'a Gateway,
    /// The client, behind trusted proxies.
    pub client: &'a Client,
    /// The service of `access.forward`, if the route has one.
    pub service: Option<&'a InternalClient>,
    /// The identifier of the request, if it has one.
    pub request_id: Option<&'a [u8]>,
}

/// The result of a look at the credentials of a request.
pub(super) enum Checked {
    /// They are valid.
    Valid(ValidCredentials),
    /// They have to be verified.
    Unknown(UnverifiedCredential),
    /// There are none, or no valid ones.
    Invalid(Synthetic),
}

/// Credentials that have to be verified.
pub(super) enum UnverifiedCredential {
    /// A password.
    Password(UnverifiedPassword),
    /// A request about which a service decides.
    Forward(UnverifiedRequest),
    /// A token for which there may be other keys soon.
    Token,
}

/// A password that was not verified lately.
pub(super) struct UnverifiedPassword {
    pub user: String,
    pub password: Vec<u8>,
    pub hash: Option<Arc<str>>,
    pub failures: u64,
}

/// A request about which the service has to be asked, with the name under which the answer is remembered.
pub(super) struct UnverifiedRequest(pub Option<[u8; 32]>);

/// The findings of valid credentials.
#[derive(Default)]
pub(super) struct ValidCredentials {
    /// The identity of the client for keys, in the form of [`identity`].
    pub identity: Option<Arc<str>>,
    /// The name of the user, where credentials have one.
    pub user: Option<Vec<u8>>,
    /// Fields that the request gets in place of the client's; an empty value removes the client's alone.
    pub fields: Vec<(String, Vec<u8>)>,
    /// `Set-Cookie` lines for the client: a renewed session.
    pub cookies: Vec<Vec<u8>>,
}

impl ValidCredentials {
    /// A user with a password.
    pub fn of_password(user: &str) -> Self {
        let identity = Some(identity("basic", user.as_bytes()));
        Self { identity, user: Some(user.as_bytes().to_vec()), ..Self::default() }
    }
}

/// The name of a client in keys: only characters that no part of a key ends with, and none that `Vary` normalises.
pub(super) fn identity(kind: &str, name: &[u8]) -> Arc<str> {
    let mut text = format!("{kind}:");
    for byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'@' => {
                text.push(char::from(*byte))
            }
            _ => {
                let _ = write!(text, "%{byte:02x}");
            }
        }
    }
    text.into()
}
