//! The login: the greeting of the server, the request of the client, and the hashes of passwords.

use super::{BadPacket, PacketReader, ServerFailure, ability, failure, write_length};
use ring::digest::{Context, Digest, SHA1_FOR_LEGACY_USE_ONLY, SHA256};

/// The character set of a connection: `utf8mb4_general_ci`.
const UTF8: u8 = 45;

/// The first packet of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Its version, such as `10.11.19-MariaDB`.
    pub version: String,
    /// The number of the connection.
    pub connection: u32,
    /// Its abilities.
    pub abilities: u32,
    /// Those of MariaDB alone.
    pub of_mariadb: u32,
    /// The challenge for the password.
    pub challenge: Vec<u8>,
    /// The name of the usual kind of password.
    pub auth: String,
}

impl Greeting {
    /// Reads a greeting, or the reason why there is none.
    ///
    /// # Errors
    /// It is malformed.
    pub fn read(payload: &[u8]) -> Result<Result<Self, ServerFailure<'_>>, BadPacket> {
        let mut rest = PacketReader(payload);
        match rest.u8()? {
            10 => {}
            0xff => return failure(rest).map(Err),
            _ => return Err(BadPacket),
        }
        let version = String::from_utf8_lossy(rest.until_nul()?).into_owned();
        let connection = rest.u32()?;
        let mut challenge = rest.take(8)?.to_vec();
        rest.take(1)?;
        let low = rest.u16()?;
        rest.take(3)?;
        let abilities = u32::from(low) | u32::from(rest.u16()?) << 16;
        let length = usize::from(rest.u8()?);
        rest.take(6)?;
        let of_mariadb = rest.u32()?;
        let of_mariadb = if abilities & ability::MYSQL == 0 { of_mariadb } else { 0 };
        if abilities & (ability::SECURE_CONNECTION | ability::PROTOCOL_41) == 0 {
            return Err(BadPacket);
        }
        let second = rest.take(length.saturating_sub(8).max(13))?;
        // Its last byte is a zero.
        challenge.extend_from_slice(&second[..second.len() - 1]);
        let mut auth = String::new();
        if abilities & ability::AUTH_BY_NAME != 0 {
            let name = rest.until_nul().unwrap_or(rest.0);
            auth = String::from_utf8_lossy(name).into_owned();
        }
        let version = version.strip_prefix("5.5.5-").map(str::to_owned).unwrap_or(version);
        Ok(Ok(Self { version, connection, abilities, of_mariadb, challenge, auth }))
    }

    /// Whether it is MariaDB.
    #[must_use]
    pub fn is_mariadb(&self) -> bool {
        self.version.contains("MariaDB")
    }

    /// The abilities that both sides have: never several statements in one text, and never files of this machine.
    #[must_use]
    pub fn shared(&self, has_tls: bool, has_database: bool) -> u32 {
        let mut wanted = ability::PROTOCOL_41
            | ability::TRANSACTIONS
            | ability::SECURE_CONNECTION
            | ability::MULTI_RESULTS
            | ability::PREPARED_MULTI_RESULTS
            | ability::AUTH_BY_NAME
            | ability::AUTH_WITH_LENGTH
            | ability::NO_EOF
            | ability::MYSQL;
        if has_tls {
            wanted |= ability::TLS;
        }
        if has_database {
            wanted |= ability::CONNECT_WITH_DATABASE;
        }
        wanted & self.abilities
    }
}

/// The login of a client.
#[derive(Clone, Copy, Debug)]
pub struct LoginRequest<'a> {
    /// The shared abilities.
    pub abilities: u32,
    /// The shared abilities of MariaDB alone.
    pub of_mariadb: u32,
    /// The user.
    pub user: &'a str,
    /// The hash of the password.
    pub hash: &'a [u8],
    /// The database.
    pub database: &'a str,
    /// The kind of password.
    pub auth: &'a str,
}

impl LoginRequest<'_> {
    /// Its first part, which is sent before TLS begins.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        let mut out = self.abilities.to_le_bytes().to_vec();
        // The largest packet.
        out.extend_from_slice(&(1_u32 << 30).to_le_bytes());
        out.push(UTF8);
        out.extend_from_slice(&[0; 19]);
        out.extend_from_slice(&self.of_mariadb.to_le_bytes());
        out
    }

    /// All of it.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut out = self.head();
        out.extend_from_slice(self.user.as_bytes());
        out.push(0);
        match self.abilities & ability::AUTH_WITH_LENGTH {
            0 => out.push(self.hash.len() as u8),
            _ => write_length(self.hash.len(), &mut out),
        }
        out.extend_from_slice(self.hash);
        if self.abilities & ability::CONNECT_WITH_DATABASE != 0 {
            out.extend_from_slice(self.database.as_bytes());
            out.push(0);
        }
        if self.abilities & ability::AUTH_BY_NAME != 0 {
            out.extend_from_slice(self.auth.as_bytes());
            out.push(0);
        }
        out
    }
}

/// Another kind of password that the server asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthSwitch<'a> {
    /// Its name.
    pub auth: &'a str,
    /// The challenge.
    pub challenge: &'a [u8],
}

/// A packet during the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginAnswer<'a> {
    /// The client is logged in.
    Done,
    /// It is rejected.
    Failed(ServerFailure<'a>),
    /// Another kind of password.
    Switch(AuthSwitch<'a>),
    /// `caching_sha2_password`: the server knew the hash.
    Known,
    /// `caching_sha2_password`: the server wants the password itself.
    Whole,
}

impl<'a> LoginAnswer<'a> {
    /// Reads one.
    ///
    /// # Errors
    /// It is malformed.
    pub fn read(payload: &'a [u8]) -> Result<Self, BadPacket> {
        let mut rest = PacketReader(payload);
        Ok(match rest.u8()? {
            0x00 => Self::Done,
            0xff => Self::Failed(failure(rest)?),
            0xfe => {
                let auth = std::str::from_utf8(rest.until_nul()?).map_err(|_| BadPacket)?;
                Self::Switch(AuthSwitch { auth, challenge: rest.0.strip_suffix(&[0]).unwrap_or(rest.0) })
            }
            0x01 if rest.0 == [3] => Self::Known,
            0x01 if rest.0 == [4] => Self::Whole,
            _ => return Err(BadPacket),
        })
    }
}

/// The answer to a challenge: that of `mysql_native_password`, `caching_sha2_password`, or of the logins by the user of the socket.
/// `None` for another kind.
#[must_use]
pub fn scramble(auth: &str, password: &[u8], challenge: &[u8]) -> Option<Vec<u8>> {
    let hash = |algorithm, parts: &[&[u8]]| -> Digest {
        let mut context = Context::new(algorithm);
        parts.iter().for_each(|it| context.update(it));
        context.finish()
    };
    let mixed =
        |one: &Digest, other: &Digest| one.as_ref().iter().zip(other.as_ref()).map(|(a, b)| a ^ b).collect();
    match auth {
        "unix_socket" | "auth_socket" => Some(Vec::new()),
        "mysql_native_password" | "caching_sha2_password" if password.is_empty() => Some(Vec::new()),
        "mysql_native_password" | "" => {
            let once = hash(&SHA1_FOR_LEGACY_USE_ONLY, &[password]);
            let twice = hash(&SHA1_FOR_LEGACY_USE_ONLY, &[once.as_ref()]);
            Some(mixed(&once, &hash(&SHA1_FOR_LEGACY_USE_ONLY, &[challenge, twice.as_ref()])))
        }
        "caching_sha2_password" => {
            let once = hash(&SHA256, &[password]);
            let twice = hash(&SHA256, &[once.as_ref()]);
            Some(mixed(&once, &hash(&SHA256, &[twice.as_ref(), challenge])))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting() -> Vec<u8> {
        let mut out = b"\x0a5.5.5-10.11.19-MariaDB\0".to_vec();
        out.extend_from_slice(&7_u32.to_le_bytes());
        out.extend_from_slice(b"12345678\0");
        // Abilities without that of MySQL, charset, status.
        out.extend_from_slice(&[0xfe, 0xff, 45, 2, 0, 0xff, 0x81, 21]);
        out.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0x1d, 0, 0, 0]);
        out.extend_from_slice(b"abcdefghijkl\0mysql_native_password\0");
        out
    }

    #[test]
    fn a_greeting() {
        let bytes = greeting();
        let it = Greeting::read(&bytes).unwrap().unwrap();
        let shown = (&*it.version, it.connection, it.of_mariadb, &*it.challenge, &*it.auth, it.is_mariadb());
        let challenge = &b"12345678abcdefghijkl"[..];
        assert_eq!(("10.11.19-MariaDB", 7, 0x1d, challenge, "mysql_native_password", true), shown);
        let shared = it.shared(true, true);
        assert_eq!(0, shared & (1 | 1 << 7 | 1 << 16), "neither files nor several statements");
        assert_ne!(0, shared & ability::TLS);
        for end in 0..bytes.len() - 22 {
            assert!(Greeting::read(&bytes[..end]).is_err(), "{end}");
        }
        let failed = Greeting::read(b"\xff\x10\x04Too many connections").unwrap();
        assert_eq!(Some(1040), failed.err().map(|it| it.code));
    }

    #[test]
    fn hashes_of_passwords() {
        let hex = |auth: &str| {
            let all = scramble(auth, b"geheim", b"12345678abcdefghijkl").unwrap();
            all.iter().map(|it| format!("{it:02x}")).collect::<String>()
        };
        assert_eq!("780aabe5ac5083c5f9c16378040869d60d4ee8ef", hex("mysql_native_password"));
        assert_eq!(
            "21193ec314484bffed05c9c3a81915a931beaede81607635810def1a3f1d6539",
            hex("caching_sha2_password")
        );
        assert_eq!(Some(vec![]), scramble("mysql_native_password", b"", b"1"));
        assert_eq!(None, scramble("mysql_clear_password", b"geheim", b""));
    }

    #[test]
    fn answers() {
        let switch = AuthSwitch { auth: "a", challenge: b"12" };
        assert_eq!(Ok(LoginAnswer::Switch(switch)), LoginAnswer::read(b"\xfea\x0012\0"));
        assert_eq!(Ok(LoginAnswer::Known), LoginAnswer::read(b"\x01\x03"));
        assert_eq!(Ok(LoginAnswer::Done), LoginAnswer::read(b"\0\0\0\x02\0\0\0"));
        for wrong in [&b""[..], b"\xfea", b"\x01", b"\x02"] {
            assert!(LoginAnswer::read(wrong).is_err());
        }
    }
}
