//! The renewals that CAs suggest (ACME Renewal Information, RFC 9773): a CA that is about to revoke a certificate has it renewed before. Without
//! a usable answer a certificate is renewed after two thirds of its lifetime.

use super::attempts::{Attempts, ManagedName};
use super::folder::{StoredSuggestion, random};
use super::order::identifier;
use super::{unbroken, wall};
use instant_acme::Error;
use larder_config::tls::{AcmeAuthority, AcmeConfig};

/// The pause after a failure, seconds.
const RETRY: u64 = 6 * 3600;
/// The bounds of the pause that a CA asks for, seconds (RFC 9773 section 4.3.3).
const PAUSES: (u64, u64) = (60, LONGEST);
const LONGEST: u64 = 86_400;

/// The window that a CA suggests, seconds since the Unix epoch; `None` where it has none.
type SuggestedWindow = Option<(i64, i64)>;

impl StoredSuggestion {
    /// Whether the CA is to be asked again. A clock that was set back does not delay that by more than the longest pause.
    fn is_outdated(&self, now: i64) -> bool {
        self.ask_at <= now || self.ask_at.saturating_sub(now) > LONGEST.cast_signed()
    }
}

impl Attempts {
    /// At most `most` names about whose renewal their CA is asked from now on.
    pub fn inquiries(&self, config: &AcmeConfig, now: i64, most: usize) -> Vec<String> {
        let mut names = self.names.borrow_mut();
        let is_due = |(name, it): &(&String, &mut ManagedName)| {
            config.names.binary_search(name).is_ok()
                && it.validity.is_some()
                && !it.is_busy
                && !it.is_asked
                && it.state.suggestion.as_ref().is_none_or(|it| it.is_outdated(now))
                && issuer(config, &it.state.authority).is_some_and(|it| !self.is_paused(it, now))
        };
        let due = names.iter_mut().filter(is_due).take(most);
        due.map(|(name, it)| {
            it.is_asked = true;
            name.clone()
        })
        .collect()
    }

    /// The second at which the CA of a name is to be asked about its renewal; `i64::MAX` where there is nothing to ask.
    pub fn next_inquiry(&self, config: &AcmeConfig, it: &ManagedName, now: i64) -> i64 {
        let Some(authority) = issuer(config, &it.state.authority) else { return i64::MAX };
        if it.validity.is_none() || it.is_asked {
            return i64::MAX;
        }
        let ask_at =
            it.state.suggestion.as_ref().filter(|it| !it.is_outdated(now)).map_or(now, |it| it.ask_at);
        ask_at.max(self.paused_until(authority, now))
    }

    /// Asks the CA of a name for the renewal of its certificate.
    pub async fn inquire(&self, config: &AcmeConfig, name: &str) {
        let before = self.names.borrow().get(name).map(|it| (it.state.authority.clone(), it.validity));
        let Some((directory, Some(validity))) = before else { return };
        let answer = match issuer(config, &directory) {
            Some(authority) => self.window(config, authority, name).await,
            None => Err(()),
        };
        let mut names = self.names.borrow_mut();
        let Some(it) = names.get_mut(name) else { return };
        it.is_asked = false;
        if it.is_busy || it.validity != Some(validity) {
            return;
        }
        let known = it.state.suggestion.take().unwrap_or_default();
        let (window, pause) = answer.unwrap_or((known.window, RETRY));
        let renewal = match window {
            // One moment for each window.
            _ if window == known.window => known.renewal,
            Some((from, until)) => validity.suggested(from, until, random()),
            None => None,
        };
        let pause = pause.clamp(PAUSES.0, PAUSES.1).cast_signed();
        it.state.suggestion =
            Some(StoredSuggestion { renewal, window, ask_at: wall().saturating_add(pause) });
        self.note(self.folder.keep_state(name, &it.state));
    }

    /// The answer of a CA, and the seconds until the next question. An error leaves everything as it is.
    async fn window(
        &self,
        config: &AcmeConfig,
        authority: &AcmeAuthority,
        name: &str,
    ) -> Result<(SuggestedWindow, u64), ()> {
        let identifier =
            self.folder.certificate(name).ok().flatten().and_then(|it| identifier(it.der())).ok_or(())?;
        let account = self.account(config, authority).await.map_err(drop)?;
        let answer = async { Ok(account.account.renewal_info(&identifier).await) };
        match unbroken(answer).await.map_err(drop)? {
            Ok((info, wait)) => {
                let window = info.suggested_window;
                Ok((Some((window.start.unix_timestamp(), window.end.unix_timestamp())), wait.as_secs()))
            }
            Err(Error::Unsupported(_)) => Ok((None, LONGEST)),
            Err(_) => Err(()),
        }
    }
}

/// The CA with this directory.
fn issuer<'c>(config: &'c AcmeConfig, directory: &str) -> Option<&'c AcmeAuthority> {
    config.authorities.iter().find(|it| it.directory.url() == directory)
}
