//! The signed URLs of a route: `access.signed`.

use crate::access::{SignedConfig, SignedStyle};
use crate::check::{ConfigCheck, RoutePath};
use crate::problem::Source;
use larder_wire::signed_url::{LEAST_SECRET, SecureLinkText, SignedNames};

impl ConfigCheck {
    pub(super) fn signed(&mut self, at: &RoutePath) -> Option<SignedConfig> {
        let [secret, style, expression, parameters] = ["secret", "style", "expression", "parameters"]
            .map(|it| self.access_key(at, &format!("signed.{it}")));
        let secrets = self.secrets(&secret);
        let is_md5 = self.text(&style) == "nginx-md5";
        let idle = [
            (&style, "style", secrets.is_empty(), "a secret; add access.signed.secret"),
            (&parameters, "parameters", secrets.is_empty(), "a secret; add access.signed.secret"),
            (&expression, "expression", !is_md5, "style = \"nginx-md5\"; add it, or remove the expression"),
        ];
        for (key, name, is_idle, missing) in idle {
            let source = self.source(key);
            if source != Source::Default && is_idle && !self.is_wrong(&secret) {
                let text = format!("{name} has no effect without {missing}");
                self.problem(source, &format!("site.route.access.signed.{name}"), &text);
            }
        }
        if secrets.is_empty() {
            return None;
        }
        let short = secrets.iter().map(|it| it.expose().len()).find(|it| *it < LEAST_SECRET);
        if let Some(length) = short.filter(|_| !is_md5) {
            let text = format!(
                "a secret has {length} bytes, and a signature needs {LEAST_SECRET} at least; make one with `openssl rand -hex 32`"
            );
            self.problem(self.source(&secret), "site.route.access.signed.secret", &text);
        }
        let before = self.text(&parameters);
        Some(match SecureLinkText::parse(&self.text(&expression)).ok().filter(|_| is_md5) {
            Some(text) => SignedConfig {
                secrets,
                names: SignedNames::of_nginx(&before),
                style: SignedStyle::NginxMd5(text),
            },
            None => SignedConfig { secrets, names: SignedNames::after(&before), style: SignedStyle::Larder },
        })
    }
}
