//! The client of a request to the admin, as far as authenticated: its name and role. Authentication is in `access`.

use larder_config::admin_role::{AdminRole, NO_NAME, NamedToken, SOCKET_NAME};
use std::fmt;
use std::rc::Rc;

/// The authenticated client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requester {
    /// None.
    Nobody,
    /// The holder of this token.
    Token(Rc<NamedToken>),
    /// The session with this number, which began with this token.
    Session(u64, Rc<NamedToken>),
    /// A client of the admin's Unix socket: the user that runs larder, or root.
    Socket,
}

impl Requester {
    /// The name of its token, or of its kind.
    pub fn name(&self) -> &str {
        match self {
            Requester::Nobody => NO_NAME,
            Requester::Token(it) | Requester::Session(_, it) => &it.name,
            Requester::Socket => SOCKET_NAME,
        }
    }

    /// Its rights; `None` without a token.
    pub fn role(&self) -> Option<AdminRole> {
        match self {
            Requester::Nobody => None,
            Requester::Token(it) | Requester::Session(_, it) => Some(it.role),
            Requester::Socket => Some(AdminRole::Admin),
        }
    }

    /// Its token; the Unix socket has none.
    pub fn token(&self) -> Option<&Rc<NamedToken>> {
        match self {
            Requester::Token(it) | Requester::Session(_, it) => Some(it),
            Requester::Nobody | Requester::Socket => None,
        }
    }

    /// The number of its session.
    pub fn session(&self) -> Option<u64> {
        match self {
            Requester::Session(number, _) => Some(*number),
            Requester::Nobody | Requester::Token(_) | Requester::Socket => None,
        }
    }

    /// Whether it has the rights of `role`.
    pub fn may(&self, role: AdminRole) -> bool {
        self.role().is_some_and(|it| it >= role)
    }
}

impl fmt::Display for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
