//! The user and the group of the process, and its further restrictions.

use super::ConfigCheck;
use crate::service_user::{Sandbox, ServiceUser};

impl ConfigCheck {
    /// The user to which a start as root changes.
    pub(super) fn service_user(&mut self) -> Option<ServiceUser> {
        let [user, group] = ["user", "group"].map(|it| Some(self.text(it)).filter(|it| !it.is_empty()));
        let Some(user) = user else {
            if self.values.given.contains_key("group") {
                let text = "no effect without user; set user, or remove group";
                self.warn_of(self.source("group"), "group", text);
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
        Some(ServiceUser { user, group })
    }

    /// The further restrictions of the process.
    pub(super) fn sandbox(&mut self) -> Sandbox {
        let sandbox = match &*self.text("sandbox") {
            "off" => Sandbox::Off,
            "on" => Sandbox::On,
            _ => Sandbox::Auto,
        };
        for key in ["sandbox", "sandbox_paths"] {
            if !self.values.given.contains_key(key) {
                continue;
            }
            let has_user = self.values.given.contains_key("user");
            let text = match sandbox {
                Sandbox::Auto | Sandbox::Off if !has_user => {
                    format!("no effect without user; set user, write sandbox = \"on\", or remove {key}")
                }
                Sandbox::Off if key == "sandbox_paths" => {
                    "no effect with sandbox = \"off\"; remove one of them".to_owned()
                }
                _ => continue,
            };
            self.warn_of(self.source(key), key, &text);
        }
        let source = self.source("sandbox_paths");
        for path in self.texts("sandbox_paths") {
            let path = self.values.base(&source).map_or_else(|| path.clone().into(), |it| it.join(&path));
            if !path.exists() {
                let text = format!(
                    "{} does not exist, and is not opened; create it, or remove it here",
                    path.display()
                );
                self.warn_of(source.clone(), "sandbox_paths", &text);
            }
        }
        sandbox
    }
}
