//! The user and the group of the process.

use super::ConfigCheck;
use crate::service_user::{Sandbox, ServiceUser};

impl ConfigCheck {
    /// The user to which a start as root changes.
    pub(super) fn service_user(&mut self) -> Option<ServiceUser> {
        let [user, group] = ["user", "group"].map(|it| Some(self.text(it)).filter(|it| !it.is_empty()));
        let Some(user) = user else {
            for key in ["group", "sandbox"] {
                if !self.values.given.contains_key(key) {
                    continue;
                }
                let text = format!("no effect without user; set user, or remove {key}");
                self.warn_of(self.source(key), key, &text);
            }
            return None;
        };
        if user == "root" || user.parse() == Ok(0) {
            let text = format!(
                "{user:?} keeps every privilege; name another user, such as \"larder\", or remove this key"
            );
            self.problem(self.source("user"), "user", &text);
            return None;
        }
        let sandbox = if self.text("sandbox") == "off" { Sandbox::Off } else { Sandbox::Auto };
        Some(ServiceUser { user, group, sandbox })
    }
}
