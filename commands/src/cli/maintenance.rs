//! The command line of `larder maintenance`: a site is put under maintenance, or back into service.

use super::{AdminTarget, Given, Output, Usage, no_action};

/// An action on the maintenance of the sites of a running larder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceOrder {
    /// The action.
    pub what: MaintenanceAction,
    /// Text or JSON.
    pub output: Output,
    /// The larder to contact; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

/// See [`MaintenanceOrder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaintenanceAction {
    /// `list`.
    List,
    /// `on` or `off`, for the site with this host; `None` is every site.
    Switch {
        /// Whether it begins.
        on: bool,
        /// The host, as in `site.hosts`.
        host: Option<String>,
    },
}

impl MaintenanceOrder {
    /// Parses the flags.
    pub(super) fn read(given: Given) -> Result<Self, Usage> {
        let arguments: Vec<&str> = given.arguments.iter().map(String::as_str).collect();
        let switch = |on, host: Option<&str>| MaintenanceAction::Switch { on, host: host.map(str::to_owned) };
        let what = match arguments[..] {
            ["list"] => MaintenanceAction::List,
            ["on"] => switch(true, None),
            ["on", host] => switch(true, Some(host)),
            ["off"] => switch(false, None),
            ["off", host] => switch(false, Some(host)),
            _ => {
                let actions = [("list", ""), ("on", "[HOST]"), ("off", "[HOST]")];
                return Err(no_action("maintenance", &actions, &arguments, "on www.example.com"));
            }
        };
        let output = if given.json { Output::Json } else { Output::Text };
        Ok(Self { what, output, admin: given.admin })
    }
}
