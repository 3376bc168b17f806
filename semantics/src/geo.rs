//! Countries and autonomous systems of addresses, from databases in the MaxMind format. The bytes are read by the server, which
//! also replaces them; here is the lookup.
//!
//! An address that a database does not contain, such as a private one, has no country and no number. Corrupt bytes yield none
//! either.

use arc_swap::ArcSwap;
use maxminddb::{PathElement, Reader, WithinOptions};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The name under which the country of a client takes part in keys. It is no field name (RFC 9110 §5.1), so that neither a client
/// can send it nor an origin receive it.
pub const COUNTRY_FIELD: &str = ":country";

/// The networks that are examined to see whether a database has values of a kind.
const MOST_EXAMINED: usize = 10_000;

/// A country: two letters in upper case (ISO 3166-1 alpha-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Country([u8; 2]);

impl Country {
    /// Parses two letters in any case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let letters: [u8; 2] = text.as_bytes().try_into().ok()?;
        letters.iter().all(u8::is_ascii_alphabetic).then(|| Self(letters.map(|it| it.to_ascii_uppercase())))
    }

    /// Its two letters.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The country of two bytes that [`Country::bytes`] returned.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok().and_then(Self::parse)
    }
}

impl fmt::Display for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.0).unwrap_or_default())
    }
}

/// A database of one file, read into memory.
pub struct GeoDatabase(Reader<Vec<u8>>);

impl GeoDatabase {
    /// The database of these bytes.
    ///
    /// # Errors
    /// They are none; the end of a sentence.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let wrong = |it: maxminddb::MaxMindDbError| format!("it is no MaxMind database (.mmdb): {it}");
        Reader::from_source(bytes).map(Self).map_err(wrong)
    }

    /// Whether some network has a country.
    #[must_use]
    pub fn has_countries(&self) -> bool {
        self.has(|it| country_of(it).is_some())
    }

    /// Whether some network has the number of an autonomous system.
    #[must_use]
    pub fn has_numbers(&self) -> bool {
        self.has(|it| number_of(it).is_some())
    }

    fn has(&self, test: impl Fn(&FoundRecord<'_>) -> bool) -> bool {
        let Ok(all) = self.0.networks(WithinOptions::default()) else { return false };
        all.take(MOST_EXAMINED).filter_map(Result::ok).any(|it| test(&it))
    }

    fn find(&self, address: IpAddr) -> Option<FoundRecord<'_>> {
        // An IPv4 address is stored once, not in its forms of IPv6.
        self.0.lookup(address.to_canonical()).ok()
    }
}

impl fmt::Debug for GeoDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GeoDatabase({})", self.0.metadata().database_type)
    }
}

/// The record of an address.
type FoundRecord<'a> = maxminddb::LookupResult<'a, Vec<u8>>;

/// MaxMind, DB-IP and others have `country.iso_code`, IPinfo has `country_code`.
fn country_of(found: &FoundRecord<'_>) -> Option<Country> {
    const NESTED: [PathElement<'static>; 2] = [PathElement::Key("country"), PathElement::Key("iso_code")];
    const FLAT: [PathElement<'static>; 1] = [PathElement::Key("country_code")];
    let text = |path: &[PathElement<'_>]| found.decode_path::<&str>(path).ok().flatten();
    text(&NESTED).or_else(|| text(&FLAT)).and_then(Country::parse)
}

/// MaxMind and DB-IP have a number, IPinfo has `asn` with the text `AS64496`.
fn number_of(found: &FoundRecord<'_>) -> Option<u32> {
    const NUMBER: [PathElement<'static>; 1] = [PathElement::Key("autonomous_system_number")];
    const TEXT: [PathElement<'static>; 1] = [PathElement::Key("asn")];
    let number = found.decode_path::<u32>(&NUMBER).ok().flatten();
    number.or_else(|| found.decode_path::<&str>(&TEXT).ok().flatten()?.strip_prefix("AS")?.parse().ok())
}

/// The databases in force, which change while requests are served.
#[derive(Debug, Default)]
pub struct GeoLookup {
    countries: ArcSwap<Option<GeoDatabase>>,
    numbers: ArcSwap<Option<GeoDatabase>>,
}

impl GeoLookup {
    /// A lookup in these databases.
    #[must_use]
    pub fn new(countries: Option<GeoDatabase>, numbers: Option<GeoDatabase>) -> Self {
        let [countries, numbers] = [countries, numbers].map(ArcSwap::from_pointee);
        Self { countries, numbers }
    }

    /// Replaces the database of countries.
    pub fn replace_countries(&self, with: GeoDatabase) {
        self.countries.store(Arc::new(Some(with)));
    }

    /// Replaces the database of autonomous systems.
    pub fn replace_numbers(&self, with: GeoDatabase) {
        self.numbers.store(Arc::new(Some(with)));
    }

    /// Takes over the database of countries of another lookup.
    pub fn share_countries(&self, of: &Self) {
        self.countries.store(of.countries.load_full());
    }

    /// Takes over the database of autonomous systems of another lookup.
    pub fn share_numbers(&self, of: &Self) {
        self.numbers.store(of.numbers.load_full());
    }

    /// The country of an address.
    #[must_use]
    pub fn country(&self, address: IpAddr) -> Option<Country> {
        let database = self.countries.load();
        country_of(&Option::as_ref(&database)?.find(address)?)
    }

    /// The number of the autonomous system of an address.
    #[must_use]
    pub fn asn(&self, address: IpAddr) -> Option<u32> {
        let database = self.numbers.load();
        number_of(&Option::as_ref(&database)?.find(address)?)
    }
}

#[cfg(test)]
#[path = "../../tests/harness/mmdb.rs"]
mod mmdb;

#[cfg(test)]
mod tests;
