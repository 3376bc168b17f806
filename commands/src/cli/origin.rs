//! The command line of `larder origin`: draining and restoring an origin.

use super::{AdminTarget, Given, Output, Usage, no_action};
use larder_config::OriginMember;

/// An action on origins of a running larder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginOrder {
    /// The action.
    pub what: OriginAction,
    /// Text or JSON.
    pub output: Output,
    /// The larder to contact; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

/// See [`OriginOrder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginAction {
    /// `list`.
    List,
    /// `drain ORIGIN`, by its address as in `proxy.to`.
    Drain(String),
    /// `restore ORIGIN`.
    Restore(String),
}

impl OriginOrder {
    /// Parses the flags.
    pub(super) fn read(given: Given) -> Result<Self, Usage> {
        let arguments: Vec<&str> = given.arguments.iter().map(String::as_str).collect();
        let what = match arguments[..] {
            ["list"] => OriginAction::List,
            ["drain", origin] => OriginAction::Drain(address(origin)?),
            ["restore", origin] => OriginAction::Restore(address(origin)?),
            _ => {
                let actions = [("list", ""), ("drain", "ORIGIN"), ("restore", "ORIGIN")];
                return Err(no_action("origin", &actions, &arguments, "drain http://10.0.0.2:8000"));
            }
        };
        let output = if given.json { Output::Json } else { Output::Text };
        Ok(Self { what, output, admin: given.admin })
    }
}

fn address(text: &str) -> Result<String, Usage> {
    let allowed = "its address as in proxy.to, such as http://10.0.0.2:8000";
    let member = OriginMember::parse(text)
        .map_err(|_| Usage(format!("ORIGIN: found {text:?}; allowed: {allowed}")))?;
    Ok(member.name())
}
