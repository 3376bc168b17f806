//! The access logs: `log.access`, and those of sites.

use super::ConfigCheck;
use larder_observe::log::sink::{LogTarget, SYSLOG};
use larder_observe::log::sites::SiteLogRules;
use larder_semantics::expression::{Expression, ExpressionSubject, RequestDomain};

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
        let condition = |name: &str| self.condition(ExpressionSubject::Finished, &key(name));
        let (when, skip) = (condition("log_when"), condition("log_skip"));
        self.warn_log_condition(&key("log_when"), when.as_ref(), "so no request is logged");
        self.warn_log_condition(&key("log_skip"), skip.as_ref(), "so it skips no request");
        let is_given = |name: &str| self.values.given.contains_key(&key(name));
        SiteLogRules {
            target: is_given("access_log").then(|| self.target(&key("access_log"))),
            format: is_given("log_format").then(|| self.text(&key("log_format")).parse().ok()).flatten(),
            when,
            skip,
        }
    }

    /// Warns of a condition that no request fulfils.
    fn warn_log_condition(&mut self, key: &str, condition: Option<&Expression>, never: &str) {
        let Some(condition) = condition else { return };
        let odd = condition.never_true();
        let texts = match odd.is_empty() && !condition.is_possible(&RequestDomain::ALL) {
            true => vec![format!("never true, {never}: its tests contradict one another")],
            false => odd,
        };
        let name = format!("site.{}", key.rsplit('.').next().unwrap_or(key));
        texts.iter().for_each(|it| self.warn_of(self.source(key), &name, it));
    }
}
