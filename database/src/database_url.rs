//! The place of a database, as it stands in `url`.

use crate::statement::SqlDialect;
use std::fmt;
use std::path::PathBuf;

/// The forms of `url`, as the end of a sentence.
pub const PLACE_FORMS: &str = "\"postgres://USER@HOST:PORT/DATABASE\", \"mysql://USER@HOST:PORT/DATABASE\" (MariaDB or MySQL; postgres+tls and \
     mysql+tls with TLS), \"postgres+unix://USER@/DIRECTORY/DATABASE\" with the directory of the socket, \
     \"mysql+unix://USER@/PATH/OF/THE/SOCKET/DATABASE\", or \"sqlite:/PATH/OF/THE/FILE\"";

/// The largest weight of a replica.
const MAX_WEIGHT: u32 = 1000;
/// The form of a replica in the configuration, as the end of a sentence.
pub const REPLICA_FORM: &str =
    "a place as in url, optionally followed by a space and \"weight=N\" from 1 to 1000";
/// The place of a database, and the user that reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabasePlace {
    /// The kind of database.
    pub dialect: SqlDialect,
    /// Where it listens.
    pub server: DatabaseServer,
    /// Whether connections to it are encrypted.
    pub is_secure: bool,
    /// The user.
    pub user: String,
    /// The name of the database.
    pub database: String,
}

/// Where a database listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseServer {
    /// Host and port.
    Tcp(String, u16),
    /// A Unix socket: for PostgreSQL its directory.
    Unix(PathBuf),
    /// No server: a file of SQLite.
    File(PathBuf),
}

impl DatabasePlace {
    /// Parses a `url`.
    ///
    /// # Errors
    /// The mistake and the right forms, as the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            |why: &str| if why.is_empty() { PLACE_FORMS.to_owned() } else { format!("{why}; {PLACE_FORMS}") };
        if let Some(path) = text.strip_prefix("sqlite:") {
            return Self::of_file(path.strip_prefix("//").unwrap_or(path)).ok_or_else(|| wrong(""));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong(""))?;
        let (scheme, is_unix) = scheme.strip_suffix("+unix").map_or((scheme, false), |it| (it, true));
        let (scheme, is_secure) = match scheme.strip_suffix("+tls") {
            Some(_) if is_unix => return Err(wrong("a Unix socket needs no TLS")),
            Some(scheme) => (scheme, true),
            None => (scheme, false),
        };
        let (dialect, usual) = match scheme {
            "postgres" | "postgresql" => (SqlDialect::Postgres, 5432),
            "mysql" | "mariadb" => (SqlDialect::MySql, 3306),
            _ => return Err(wrong("")),
        };
        let (user, rest) = rest.split_once('@').ok_or_else(|| wrong("it names no user"))?;
        if user.contains(':') {
            return Err("the URL has a password; write it in password, where it is hidden".to_owned());
        }
        let is_plain =
            |it: &str| !it.is_empty() && it.bytes().all(|it| it > b' ' && !b"%?#@/\\".contains(&it));
        let (server, database) = rest.rsplit_once('/').ok_or_else(|| wrong("it names no database"))?;
        if !is_plain(user) || !is_plain(database) {
            return Err(wrong("user and database are plain names"));
        }
        let server = match is_unix {
            true if server.starts_with('/') => DatabaseServer::Unix(server.into()),
            true => return Err(wrong("the path of the socket begins with /")),
            false => {
                let (host, port) = host_and_port(server).ok_or_else(|| wrong("the host is malformed"))?;
                DatabaseServer::Tcp(host, port.unwrap_or(usual))
            }
        };
        Ok(Self { dialect, server, is_secure, user: user.to_owned(), database: database.to_owned() })
    }

    /// The file at an absolute path. It has no user.
    fn of_file(path: &str) -> Option<Self> {
        let is_path = path.starts_with('/') && !path.ends_with('/') && !path.contains(['?', '#', '\0']);
        is_path.then(|| Self {
            dialect: SqlDialect::Sqlite,
            server: DatabaseServer::File(path.into()),
            is_secure: false,
            user: String::new(),
            database: String::new(),
        })
    }
}

/// A server with a copy of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSettings {
    /// Its place.
    pub place: DatabasePlace,
    /// Its part of the queries, relative to the other replicas.
    pub weight: u32,
}

impl ReplicaSettings {
    /// Parses a place, optionally followed by ` weight=N`.
    ///
    /// # Errors
    /// The mistake and the right forms, as the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (place, weight) = match text.split_once(' ') {
            Some((place, rest)) => {
                let digits = rest.trim_start().strip_prefix("weight=").unwrap_or_default();
                let is_plain = digits.bytes().all(|it| it.is_ascii_digit());
                let weight = digits.parse().ok().filter(|it| is_plain && (1..=MAX_WEIGHT).contains(it));
                (place, weight.ok_or_else(|| REPLICA_FORM.to_owned())?)
            }
            None => (text, 1),
        };
        Ok(Self { place: DatabasePlace::parse(place)?, weight })
    }
}

fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some(""))?)
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let is_host = !host.is_empty()
        && host.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-' | b'_' | b':'));
    let port = if port.is_empty() { None } else { Some(port.parse().ok().filter(|it| *it > 0)?) };
    is_host.then(|| (host.to_owned(), port))
}

impl fmt::Display for DatabasePlace {
    /// Without the user: for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.dialect {
            SqlDialect::Postgres => "postgres",
            SqlDialect::MySql => "mysql",
            SqlDialect::Sqlite => "sqlite",
        };
        let tls = if self.is_secure { "+tls" } else { "" };
        let database = &self.database;
        match &self.server {
            DatabaseServer::Tcp(host, port) => write!(f, "{scheme}{tls}://{host}:{port}/{database}"),
            DatabaseServer::Unix(path) => write!(f, "{scheme}+unix://{}/{database}", path.display()),
            DatabaseServer::File(path) => write!(f, "{scheme}:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_place() {
        let shown = |text: &str| match DatabasePlace::parse(text) {
            Ok(it) => format!("{} as {}", it, it.user),
            Err(why) => why.split(';').next().unwrap_or_default().to_owned(),
        };
        assert_eq!("postgres://db.internal:5432/shop as larder", shown("postgres://larder@db.internal/shop"));
        assert_eq!("postgres://::1:6432/shop as a", shown("postgresql://a@[::1]:6432/shop"));
        assert_eq!(
            "postgres+unix:///run/postgresql/shop as a",
            shown("postgres+unix://a@/run/postgresql/shop")
        );
        assert_eq!("the URL has a password", shown("postgres://a:secret@h/shop"));
        assert_eq!("it names no user", shown("postgres://h/shop"));
        assert_eq!("the host is malformed", shown("postgres://a@h:x/shop"));
        assert_eq!("user and database are plain names", shown("postgres://a@h/"));
        assert_eq!("the path of the socket begins with /", shown("postgres+unix://a@run/shop"));
        assert_eq!("mysql://db:3306/shop as a", shown("mariadb://a@db/shop"));
        assert_eq!("mysql+tls://db:3307/shop as a", shown("mysql+tls://a@db:3307/shop"));
        assert_eq!("postgres+tls://db:5432/shop as a", shown("postgres+tls://a@db/shop"));
        assert_eq!("mysql+unix:///run/m.sock/shop as a", shown("mysql+unix://a@/run/m.sock/shop"));
        assert_eq!("a Unix socket needs no TLS", shown("mysql+tls+unix://a@/run/m.sock/shop"));
        assert_eq!("sqlite:/srv/shop.db as ", shown("sqlite:/srv/shop.db"));
        assert_eq!("sqlite:/srv/a b.db as ", shown("sqlite:///srv/a b.db"));
        for wrong in ["sqlite:shop.db", "sqlite://h/shop.db", "sqlite:/", "sqlite:/a?mode=rwc"] {
            assert!(shown(wrong).starts_with("\"postgres:"), "{wrong}");
        }
        assert!(shown("oracle://a@h/shop").starts_with("\"postgres:"));
    }

    #[test]
    fn forms_of_a_replica() {
        let shown = |text: &str| match ReplicaSettings::parse(text) {
            Ok(it) => format!("{} {}", it.place, it.weight),
            Err(why) => why,
        };
        assert_eq!("postgres://a:5432/b 1", shown("postgres://u@a/b"));
        assert_eq!("postgres://a:5432/b 20", shown("postgres://u@a/b weight=20"));
        for wrong in ["postgres://u@a/b weight=0", "postgres://u@a/b weight=+1", "postgres://u@a/b heavy"] {
            assert_eq!(REPLICA_FORM, shown(wrong), "{wrong}");
        }
    }
}
