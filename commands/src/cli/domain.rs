//! `--domain`: the keys of a server that is reachable from everywhere, with certificates by ACME.

use super::{Given, Usage};

/// The name of the flag, without dashes.
pub(super) const DOMAIN: &str = "domain";
const FLAG: &str = "--domain";
/// The keys that the flag sets.
const HOSTS: &str = "site[0].hosts";
const CA: &str = "tls.acme.ca[0].directory";

impl Given {
    /// Sets the keys for the domains: a site with these hosts, certificates by ACME, and unless other flags set them, the public
    /// addresses and the redirect to HTTPS.
    pub(super) fn serve_domains(&mut self) -> Result<(), Usage> {
        let all: Vec<String> = self.own.iter().filter(|it| it.0 == DOMAIN).map(|it| it.1.clone()).collect();
        if all.is_empty() {
            let needs = self.settings.iter().find(|it| it.path.starts_with("tls.acme."));
            return match needs {
                Some(it) => Err(Usage(format!(
                    "{} has no effect without --domain; add --domain example.com",
                    it.flag
                ))),
                None => Ok(()),
            };
        }
        for (path, key) in [(HOSTS, "hosts"), ("tls.acme.names", "tls.acme.names")] {
            if self.settings.iter().any(|it| it.path == path) {
                return Err(Usage(format!("--set: {key} is set by --domain, which may be repeated")));
            }
        }
        for domain in all.iter().flat_map(|it| it.split(',')) {
            self.add_member(HOSTS, domain, FLAG);
        }
        let public = [
            ("listen", "http://[::]:80,https://[::]:443"),
            ("site[0].redirect_https", "true"),
            (CA, larder_config::tls::LETS_ENCRYPT),
        ];
        for (path, text) in public {
            if !self.settings.iter().any(|it| it.path == path) {
                self.set(path, text, FLAG);
            }
        }
        Ok(())
    }
}
