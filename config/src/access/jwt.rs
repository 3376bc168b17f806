//! Tokens of a route, checked: `access.jwt`.

use larder_wire::jwt::{JwtKeys, TokenDemands};
use std::path::PathBuf;

/// The largest file of keys, bytes.
const LARGEST: u64 = 1 << 20;

/// The demands on tokens, and their effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtConfig {
    /// The keys, as read with the configuration.
    pub keys: JwtKeys,
    /// The file that they are from, if they are not a secret.
    pub file: Option<KeyFile>,
    /// Algorithms, issuers, audiences, leeway.
    pub demands: TokenDemands,
    /// The field with the token.
    pub header: String,
    /// The cookie with the token.
    pub cookie: Option<String>,
    /// Claims with the values that they must have.
    pub claims: Vec<(String, String)>,
    /// Fields for the origin, with the claims that are their values.
    pub send: Vec<(String, String)>,
}

impl JwtConfig {
    /// Whether the token is in `Authorization`.
    #[must_use]
    pub fn is_in_authorization(&self) -> bool {
        self.header.eq_ignore_ascii_case("authorization")
    }
}

/// A file of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    /// Its path.
    pub path: PathBuf,
    /// Its form.
    pub form: KeyFileForm,
}

/// The form of a file of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFileForm {
    /// One public key in PEM.
    Pem,
    /// A JSON Web Key Set.
    Set,
}

impl KeyFile {
    /// Reads the keys.
    ///
    /// # Errors
    /// The mistake and the remedy, as one sentence that repeats nothing of a key.
    pub fn read(&self) -> Result<JwtKeys, String> {
        let plain = |it: std::io::Error| larder_stdx::error::plain(&it);
        if std::fs::metadata(&self.path).map_err(plain)?.len() > LARGEST {
            return Err("it is larger than 1MiB".to_owned());
        }
        let text = std::fs::read_to_string(&self.path).map_err(plain)?;
        match self.form {
            KeyFileForm::Pem => JwtKeys::parse_pem(&text),
            KeyFileForm::Set => JwtKeys::parse_set(&text),
        }
    }
}
