//! The command line of `larder check --against-recent`: the file to try, and the larder that tries it.

use super::{Given, Output, Usage, admin_address};
use larder_config::Setting;
use larder_config::plan::{Plan, PlanBase};
use larder_transport::listener::Listen;

/// The settings of `larder check --against-recent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRecent {
    /// The configuration to try.
    pub plan: Plan,
    /// The larder to contact, if named.
    pub admin: Option<Listen>,
    /// Text or JSON.
    pub output: Output,
}

impl CheckRecent {
    /// Parses the flags. The larder to contact is that of `--admin`, which otherwise is a setting.
    pub(super) fn read(mut given: Given, file: PlanBase) -> Result<Self, Usage> {
        let output = if given.json { Output::Json } else { Output::Text };
        let is_admin = |it: &Setting| it.path == "admin.listen";
        let admin = match given.settings.iter().find(|it| is_admin(it)) {
            Some(it) => {
                let (flag, found) = (&it.flag, &it.text);
                let bad = || Usage(format!("{flag}: found {found:?}; allowed: ADDR:PORT or \"unix:/PATH\""));
                Some(admin_address(found).ok_or_else(bad)?)
            }
            None => None,
        };
        given.settings.retain(|it| !is_admin(it));
        if let Some(it) = given.settings.first() {
            return Err(Usage(format!("--against-recent tries the file as it is; remove {}", it.flag)));
        }
        Ok(Self { plan: given.plan(file), admin, output })
    }
}
