//! The roles of the admin's clients, and the named tokens of the configuration. The admin's own token is in `token`.

use std::fmt;

/// The name of the admin's own token, of which the configuration has only the file.
pub const ADMIN_NAME: &str = "admin";
/// The name of a client of the admin's Unix socket.
pub const SOCKET_NAME: &str = "socket";
/// The name of a client without a token.
pub const NO_NAME: &str = "nobody";

/// The rights of a client of the admin. Each role has those of the roles before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdminRole {
    /// Reads, and changes nothing.
    Viewer,
    /// Daily work: purges, overlays, drains, maintenance, trace sampling.
    Operator,
    /// Everything: the configuration, upgrades, sessions, the audit log.
    Admin,
}

impl AdminRole {
    /// All, the least first.
    pub const ALL: [AdminRole; 3] = [AdminRole::Viewer, AdminRole::Operator, AdminRole::Admin];
    /// Their names.
    pub const NAMES: [&str; 3] =
        [AdminRole::Viewer.name(), AdminRole::Operator.name(), AdminRole::Admin.name()];

    /// The name in configurations, logs and the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            AdminRole::Viewer => "viewer",
            AdminRole::Operator => "operator",
            AdminRole::Admin => "admin",
        }
    }

    /// The role of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// A named token of `admin.tokens`. Only the fingerprint of its text is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedToken {
    /// Its name, unique among all.
    pub name: String,
    /// The rights of its clients.
    pub role: AdminRole,
    /// The fingerprint of its text, as [`Token::fingerprint`](crate::token::Token::fingerprint).
    pub fingerprint: String,
}

impl fmt::Debug for NamedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedToken({} {})", self.name, self.role.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_the_rights_of_those_before_it() {
        assert!(AdminRole::ALL.is_sorted());
        for it in AdminRole::ALL {
            assert_eq!(Some(it), AdminRole::parse(it.name()));
        }
        assert_eq!(None, AdminRole::parse("Admin"));
    }
}
