//! The certificate of `tls.self_signed`. It is kept next to the admin token, so that clients that have accepted it are not asked again after
//! an upgrade or a restart. Its names are those of this machine, so that all larders of a user have the same one.

use larder_config::token;
use larder_observe::log::{ErrorLog, Level};
use larder_stdx::clock;
use larder_stdx::error::plain;
use larder_transport::tls::certificates::Certificate;
use rcgen::{CertificateParams, DnType, KeyPair};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
/// The validity of a generated certificate.
const VALIDITY: Duration = DAY.saturating_mul(90);
/// The rest of its validity from which on a start generates another one, seconds.
const RENEWAL: i64 = 30 * 86_400;
/// The most bytes of the file.
const LONGEST: u64 = 1 << 16;

/// The kept certificate, or a new one, which is then kept.
///
/// # Errors
/// One sentence.
pub fn own_certificate(errors: &ErrorLog) -> Result<Certificate, String> {
    let place = token::state_place("self-signed.pem");
    let (certificate, not_kept) = kept_at(place.as_deref(), now())?;
    if let Some(why) = not_kept {
        errors.event(Level::Warn, "certificate-warning", &[("why", &why)]);
    }
    Ok(certificate)
}

/// The certificate, and the reason why the next start has another one.
fn kept_at(place: Option<&Path>, now: i64) -> Result<(Certificate, Option<String>), String> {
    let names = names();
    if let Some(certificate) = place.and_then(|it| read(it).ok()).and_then(|it| certificate(&it).ok())
        && certificate.names == names
        && (certificate.from..certificate.until - RENEWAL).contains(&now)
    {
        return Ok((certificate, None));
    }
    let pem = generated(names, now)
        .map_err(|it| format!("The self-signed certificate cannot be created: {it}."))?;
    let cannot = |at: &Path, why: &io::Error| {
        format!(
            "the self-signed certificate cannot be stored in {}: {}; after a restart clients get another one",
            at.display(),
            plain(why)
        )
    };
    let not_kept = place.and_then(|it| write(it, pem.as_bytes()).err().map(|why| cannot(it, &why)));
    Ok((certificate(pem.as_bytes())?, not_kept))
}

fn certificate(pem: &[u8]) -> Result<Certificate, String> {
    Certificate::of_pem(pem, pem, None, "the self-signed certificate", "its key").map_err(String::from)
}

/// A file of another user, or that others can read, is not used.
fn read(place: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(place)?;
    let about = file.metadata()?;
    if !about.is_file() || about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o077 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut pem = Vec::new();
    file.take(LONGEST).read_to_end(&mut pem)?;
    Ok(pem)
}

/// Replaces the file in one step.
fn write(place: &Path, pem: &[u8]) -> io::Result<()> {
    if let Some(folder) = place.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let next = place.with_extension(format!("pem.{}", std::process::id()));
    let mut options = OpenOptions::new();
    let written = options.create_new(true).write(true).mode(0o600).open(&next).and_then(|mut file| {
        file.write_all(pem)?;
        file.sync_all()?;
        std::fs::rename(&next, place)
    });
    written.inspect_err(|_| {
        let _ = std::fs::remove_file(&next);
    })
}

/// The names of this machine.
fn names() -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let host = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let is_name = host.bytes().all(|it| it.is_ascii_alphanumeric() || b"-.".contains(&it));
    if !host.is_empty() && is_name && !names.contains(&host) {
        names.push(host);
    }
    names
}

/// An untrusted certificate for this machine alone, with its key.
fn generated(names: Vec<String>, now: i64) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "larder, for a trial");
    let now = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(now).unwrap_or(0));
    params.not_before = now - DAY;
    params.not_after = now + VALIDITY;
    let key = KeyPair::generate()?;
    Ok(params.self_signed(&key)?.pem() + &key.serialize_pem())
}

fn now() -> i64 {
    i64::try_from(clock::wall().0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const NOW: i64 = 1_800_000_000;
    const DAYS: i64 = 86_400;

    #[track_caller]
    fn fingerprint(place: Option<&Path>, now: i64) -> String {
        let (certificate, not_kept) = kept_at(place, now).unwrap();
        assert_eq!(None, not_kept);
        certificate.fingerprint()
    }

    #[test]
    fn the_certificate_stays_until_it_nears_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("self-signed.pem");
        let first = fingerprint(Some(&place), NOW);
        assert_eq!(0o600, place.metadata().unwrap().mode() & 0o777);
        assert_eq!(first, fingerprint(Some(&place), NOW));
        assert_eq!(first, fingerprint(Some(&place), NOW + 59 * DAYS));
        let second = fingerprint(Some(&place), NOW + 61 * DAYS);
        assert_ne!(first, second);
        assert_eq!(second, fingerprint(Some(&place), NOW + 61 * DAYS));
        assert_ne!(second, fingerprint(Some(&place), NOW), "a clock that was set back: it is not valid yet");
        assert_eq!(1, folder.path().read_dir().unwrap().count(), "no temporary file stays");
        assert_ne!(fingerprint(None, NOW), fingerprint(None, NOW), "without a place");
    }

    #[test]
    fn a_damaged_or_readable_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("self-signed.pem");
        let mut last = fingerprint(Some(&place), NOW);
        let damages: [fn(&Path); 4] = [
            |it| std::fs::write(it, "").unwrap(),
            |it| std::fs::write(it, &std::fs::read(it).unwrap()[..700]).unwrap(),
            |it| std::fs::set_permissions(it, std::fs::Permissions::from_mode(0o644)).unwrap(),
            |it| std::fs::remove_file(it).unwrap(),
        ];
        for damage in damages {
            damage(&place);
            let next = fingerprint(Some(&place), NOW);
            assert_ne!(last, next);
            assert_eq!(next, fingerprint(Some(&place), NOW));
            last = next;
        }
    }

    #[test]
    fn a_certificate_that_cannot_be_stored_is_served() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let place = folder.path().join("file/self-signed.pem");
        let (certificate, why) = kept_at(Some(&place), NOW).unwrap();
        assert_eq!("localhost", certificate.names[0]);
        assert!(why.unwrap().contains("cannot be stored in"), "its reason is logged");
    }
}
