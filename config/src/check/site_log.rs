//! The access logs: `log.access`, and those of sites.

use super::ConfigCheck;
use larder_observe::log::sink::{LogTarget, SYSLOG};
use larder_observe::log::sites::SiteLogRules;
use larder_semantics::expression::ExpressionSubject;

impl ConfigCheck {
    /// The target of a log; `off` if it is not set.
    pub(super) fn target(&self, key: &str) -> LogTarget {
        let text = self.text(key);
        match text.as_str() {
            "off" | "" => LogTarget::Off,
            "-" => LogTarget::Standard,
            "syslog" => LogTarget::Syslog(SYSLOG.into()),
            _ => match text.strip_prefix("syslog:") {
                Some(socket) => LogTarget::Syslog(socket.into()),
                None => self.path(key).map_or(LogTarget::Off, LogTarget::File),
            },
        }
    }

    /// The rules of the log of the site at `prefix`.
    pub(super) fn site_log(&mut self, prefix: &str) -> SiteLogRules {
        let key = |name: &str| format!("{prefix}.{name}");
        let [when, skip] = ["log_when", "log_skip"].map(|it| self.text(&key(it)));
        if !when.is_empty() && when.trim() == skip.trim() {
            let text = "the same condition as log_when, so no request is logged; change one of them";
            self.warn_of(self.source(&key("log_skip")), "site.log_skip", text);
        }
        let is_given = |name: &str| self.values.given.contains_key(&key(name));
        let condition = |name: &str| self.condition(ExpressionSubject::Finished, &key(name));
        SiteLogRules {
            target: is_given("access_log").then(|| self.target(&key("access_log"))),
            format: is_given("log_format").then(|| self.text(&key("log_format")).parse().ok()).flatten(),
            when: condition("log_when"),
            skip: condition("log_skip"),
        }
    }
}
