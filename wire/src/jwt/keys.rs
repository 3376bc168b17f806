//! The keys that verify tokens: a secret, a public key in PEM (RFC 7468), or a JSON Web Key Set (RFC 7517).

use super::json;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::{hmac, signature};
use serde_json::{Map, Value};
use std::fmt;

/// The least bytes of a secret (RFC 7518 §3.2).
const LEAST_SECRET: usize = 32;
/// The most keys of a set.
const MOST_KEYS: usize = 64;

/// A signature algorithm (RFC 7518 §3.1, RFC 8037 §3.1). `none` is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// ECDSA over P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

use JwtAlgorithm::{EdDsa, Es256, Es384, Hs256, Hs384, Hs512, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};

/// The algorithms by their names in tokens.
const NAMES: [(&str, JwtAlgorithm); 12] = [
    ("HS256", Hs256),
    ("HS384", Hs384),
    ("HS512", Hs512),
    ("RS256", Rs256),
    ("RS384", Rs384),
    ("RS512", Rs512),
    ("PS256", Ps256),
    ("PS384", Ps384),
    ("PS512", Ps512),
    ("ES256", Es256),
    ("ES384", Es384),
    ("EdDSA", EdDsa),
];

impl JwtAlgorithm {
    /// The algorithm of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        NAMES.iter().find(|it| it.0 == name).map(|it| it.1)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|it| it.1 == self).map_or("", |it| it.0)
    }
}

#[derive(Clone, PartialEq, Eq)]
enum KeyMaterial {
    Secret(Vec<u8>),
    /// Modulus and exponent, big-endian, without leading zeros.
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// Uncompressed points.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A key with the algorithms that it has.
#[derive(Clone, PartialEq, Eq)]
pub struct VerificationKey {
    /// Its name in a set.
    pub kid: Option<String>,
    material: KeyMaterial,
    /// The only algorithm, if its set says so.
    only: Option<JwtAlgorithm>,
}

impl fmt::Debug for VerificationKey {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "VerificationKey({:?})", self.kid)
    }
}

impl VerificationKey {
    /// Whether the key has an algorithm.
    #[must_use]
    pub fn fits(&self, algorithm: JwtAlgorithm) -> bool {
        let is_of_kind = match (&self.material, algorithm) {
            (KeyMaterial::Secret(it), Hs256) => it.len() >= 32,
            (KeyMaterial::Secret(it), Hs384) => it.len() >= 48,
            (KeyMaterial::Secret(it), Hs512) => it.len() >= 64,
            (KeyMaterial::Rsa { .. }, Rs256 | Rs384 | Rs512 | Ps256 | Ps384 | Ps512)
            | (KeyMaterial::P256(_), Es256)
            | (KeyMaterial::P384(_), Es384)
            | (KeyMaterial::Ed25519(_), EdDsa) => true,
            _ => false,
        };
        is_of_kind && self.only.is_none_or(|it| it == algorithm)
    }

    /// Whether `signature` is that of `signed`, in constant time for a secret.
    pub(super) fn verifies(&self, algorithm: JwtAlgorithm, signed: &[u8], signature: &[u8]) -> bool {
        let public = |by: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            signature::UnparsedPublicKey::new(by, key).verify(signed, signature).is_ok()
        };
        match &self.material {
            _ if !self.fits(algorithm) => false,
            KeyMaterial::Secret(secret) => {
                let by = match algorithm {
                    Hs384 => hmac::HMAC_SHA384,
                    Hs512 => hmac::HMAC_SHA512,
                    _ => hmac::HMAC_SHA256,
                };
                hmac::verify(&hmac::Key::new(by, secret), signed, signature).is_ok()
            }
            KeyMaterial::Rsa { n, e } => {
                let by = match algorithm {
                    Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => &signature::RSA_PKCS1_2048_8192_SHA256,
                };
                signature::RsaPublicKeyComponents { n, e }.verify(by, signed, signature).is_ok()
            }
            KeyMaterial::P256(it) => public(&signature::ECDSA_P256_SHA256_FIXED, it),
            KeyMaterial::P384(it) => public(&signature::ECDSA_P384_SHA384_FIXED, it),
            KeyMaterial::Ed25519(it) => public(&signature::ED25519, it),
        }
    }

    fn of(material: KeyMaterial) -> Self {
        Self { kid: None, material, only: None }
    }
}

/// All keys of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JwtKeys(Vec<VerificationKey>);

impl JwtKeys {
    /// The keys.
    pub fn iter(&self) -> impl Iterator<Item = &VerificationKey> {
        self.0.iter()
    }

    /// Whether they are a secret, with which a verification takes a few microseconds.
    #[must_use]
    pub fn are_secret(&self) -> bool {
        self.iter().any(|it| matches!(it.material, KeyMaterial::Secret(_)))
    }

    /// Whether some key has an algorithm.
    #[must_use]
    pub fn fit(&self, algorithm: JwtAlgorithm) -> bool {
        self.iter().any(|it| it.fits(algorithm))
    }

    /// A secret for HMAC.
    ///
    /// # Errors
    /// It is too short, as one sentence.
    pub fn of_secret(secret: &[u8]) -> Result<Self, String> {
        match secret.len() {
            LEAST_SECRET.. => Ok(Self(vec![VerificationKey::of(KeyMaterial::Secret(secret.to_vec()))])),
            length => Err(format!(
                "the secret has {length} bytes, and HS256 needs 32 at least; make one with `openssl rand -hex 32`"
            )),
        }
    }

    /// Parses a public key in PEM: RSA from 2048 to 8192 bits, P-256, P-384 or Ed25519.
    ///
    /// # Errors
    /// The mistake and the remedy, as one sentence.
    pub fn parse_pem(text: &str) -> Result<Self, String> {
        let (label, der) = pem(text).ok_or("it is not a PEM file with \"-----BEGIN PUBLIC KEY-----\"")?;
        let material = match label {
            "PUBLIC KEY" => of_spki(&der)?,
            "RSA PUBLIC KEY" => of_pkcs1(&der)?,
            "CERTIFICATE" => {
                return Err("it is a certificate; extract its public key with `openssl x509 -pubkey -noout`"
                    .to_owned());
            }
            it if it.ends_with("PRIVATE KEY") => {
                return Err(
                    "it is a private key, which larder does not need; extract the public key with `openssl pkey -pubout`"
                        .to_owned(),
                );
            }
            it => return Err(format!("it is a \"{it}\", not a \"PUBLIC KEY\"")),
        };
        Ok(Self(vec![VerificationKey::of(material)]))
    }

    /// Parses a JSON Web Key Set. Keys of other types, curves and uses are skipped (RFC 7517 §5), and so are symmetric ones.
    ///
    /// # Errors
    /// The mistake, as one sentence. It repeats nothing of a key.
    pub fn parse_set(text: &str) -> Result<Self, String> {
        let set = json::object(text.as_bytes()).ok_or("it is not a JSON object, or a name occurs twice")?;
        let all = set.get("keys").and_then(Value::as_array).ok_or("it has no array \"keys\"")?;
        if all.len() > MOST_KEYS {
            return Err(format!("it has more than {MOST_KEYS} keys"));
        }
        let mut keys: Vec<VerificationKey> = Vec::new();
        for (at, it) in all.iter().enumerate() {
            let it = it.as_object().ok_or_else(|| format!("key {} is not an object", at + 1))?;
            let Some(key) = of_jwk(it).map_err(|why| format!("key {}: {why}", at + 1))? else { continue };
            let is_double = |it: &VerificationKey| it.kid == key.kid && it.overlaps(&key);
            if keys.iter().any(is_double) {
                return Err(format!("key {}: an earlier key has the same kid and algorithm", at + 1));
            }
            keys.push(key);
        }
        match keys.is_empty() {
            true => Err("it has no key for RS256, PS256, ES256, ES384 or EdDSA".to_owned()),
            false => Ok(Self(keys)),
        }
    }
}

impl VerificationKey {
    fn overlaps(&self, other: &Self) -> bool {
        NAMES.iter().any(|it| self.fits(it.1) && other.fits(it.1))
    }
}

/// A key of a set; `None` if it is not for signatures that larder verifies.
fn of_jwk(it: &Map<String, Value>) -> Result<Option<VerificationKey>, String> {
    let text = |name: &str| match it.get(name) {
        None => Ok(None),
        Some(Value::String(it)) => Ok(Some(it.as_str())),
        Some(_) => Err(format!("\"{name}\" is not a text")),
    };
    let bytes = |name: &str| {
        let value = text(name)?.ok_or_else(|| format!("\"{name}\" is missing"))?;
        URL_SAFE_NO_PAD.decode(value).map_err(|_| format!("\"{name}\" is not base64url without padding"))
    };
    let verifies = |it: &Value| it.as_array().is_none_or(|it| it.iter().any(|it| it == "verify"));
    if text("use")?.is_some_and(|it| it != "sig") || !it.get("key_ops").is_none_or(verifies) {
        return Ok(None);
    }
    let material = match (text("kty")?, text("crv")?) {
        (Some("RSA"), _) => rsa(&bytes("n")?, &bytes("e")?)?,
        (Some("EC"), Some("P-256")) => KeyMaterial::P256(point(&bytes("x")?, &bytes("y")?, 32)?),
        (Some("EC"), Some("P-384")) => KeyMaterial::P384(point(&bytes("x")?, &bytes("y")?, 48)?),
        (Some("OKP"), Some("Ed25519")) => KeyMaterial::Ed25519(of_length(&bytes("x")?, 32)?),
        _ => return Ok(None),
    };
    let mut key = VerificationKey { kid: text("kid")?.map(str::to_owned), ..VerificationKey::of(material) };
    if let Some(name) = text("alg")? {
        // A key for another algorithm, such as RSA-OAEP, verifies nothing here.
        let Some(only) = JwtAlgorithm::parse(name).filter(|it| key.fits(*it)) else { return Ok(None) };
        key.only = Some(only);
    }
    Ok(Some(key))
}

fn of_length(it: &[u8], length: usize) -> Result<Vec<u8>, String> {
    if it.len() == length { Ok(it.to_vec()) } else { Err("a coordinate has the wrong length".to_owned()) }
}

fn point(x: &[u8], y: &[u8], length: usize) -> Result<Vec<u8>, String> {
    Ok([&[4][..], &of_length(x, length)?, &of_length(y, length)?].concat())
}

fn rsa(n: &[u8], e: &[u8]) -> Result<KeyMaterial, String> {
    let plain = |it: &[u8]| it.iter().copied().skip_while(|it| *it == 0).collect::<Vec<u8>>();
    let (n, e) = (plain(n), plain(e));
    let bits = n.len() * 8 - n.first().map_or(0, |it| it.leading_zeros() as usize);
    if !(2048..=8192).contains(&bits) {
        return Err(format!("the RSA key has {bits} bits; allowed: 2048 to 8192"));
    }
    let is_odd = e.last().is_some_and(|it| it % 2 == 1);
    if !is_odd || e == [1] || e.len() > 4 {
        return Err("the exponent of the RSA key is not an odd number from 3 to 2^32".to_owned());
    }
    Ok(KeyMaterial::Rsa { n, e })
}

/// The label and the content of the first block of a PEM file.
fn pem(text: &str) -> Option<(&str, Vec<u8>)> {
    let rest = text.split_once("-----BEGIN ")?.1;
    let (label, rest) = rest.split_once("-----")?;
    let body = rest.split_once(&format!("-----END {label}-----"))?.0;
    let body: String = body.split_ascii_whitespace().collect();
    Some((label, STANDARD.decode(body).ok()?))
}

/// The object identifiers of public keys, as DER.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const IDENTIFIER: u8 = 0x06;

/// A public key in its usual form (RFC 5280 §4.1.2.7).
fn of_spki(der: &[u8]) -> Result<KeyMaterial, String> {
    let parts = || {
        let outer = whole(der, SEQUENCE)?;
        let (algorithm, rest) = element(outer, SEQUENCE)?;
        let bits = whole(rest, BITS)?;
        let (kind, parameters) = element(algorithm, IDENTIFIER)?;
        let curve = element(parameters, IDENTIFIER).map(|it| it.0);
        // No unused bits.
        Some((kind, curve, bits.strip_prefix(&[0])?))
    };
    let (kind, curve, key) = parts().ok_or("its content is not a public key in DER")?;
    let of_point = |length: usize| match key.first() {
        Some(4) if key.len() == 1 + 2 * length => Ok(key.to_vec()),
        _ => Err("the point of the EC key is not in the uncompressed form".to_owned()),
    };
    match (kind, curve) {
        (RSA, _) => of_pkcs1(key),
        (EC, Some(P256)) => of_point(32).map(KeyMaterial::P256),
        (EC, Some(P384)) => of_point(48).map(KeyMaterial::P384),
        (ED25519, _) => of_length(key, 32).map(KeyMaterial::Ed25519),
        _ => Err("the type of the key is not supported; allowed: RSA, P-256, P-384 and Ed25519".to_owned()),
    }
}

/// An RSA key (RFC 8017 §A.1.1).
fn of_pkcs1(der: &[u8]) -> Result<KeyMaterial, String> {
    let numbers = || {
        let (n, rest) = element(whole(der, SEQUENCE)?, INTEGER)?;
        Some((n, whole(rest, INTEGER)?))
    };
    let (n, e) = numbers().ok_or("its content is not an RSA public key in DER")?;
    rsa(n, e)
}

/// The content of a DER element of this type at the start of `der`, and the bytes behind it.
fn element(der: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let (head, rest) = der.split_at_checked(2)?;
    if head[0] != kind {
        return None;
    }
    let (length, rest) = match head[1] {
        it @ ..=0x7f => (usize::from(it), rest),
        it @ 0x81..=0x82 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(it - 0x80))?;
            (bytes.iter().fold(0, |sum, it| sum << 8 | usize::from(*it)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// The content of the only element of `der`.
fn whole(der: &[u8], kind: u8) -> Option<&[u8]> {
    element(der, kind).filter(|it| it.1.is_empty()).map(|it| it.0)
}
