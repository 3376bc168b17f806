//! The command line of `larder tls`: the certificates of a running larder.

use super::{AdminTarget, Given, Output, Usage, no_action};

/// `larder tls list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsCommand {
    /// Text or JSON.
    pub output: Output,
    /// The larder to contact; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

impl TlsCommand {
    /// Parses the flags.
    pub(super) fn read(given: Given) -> Result<Self, Usage> {
        let arguments: Vec<&str> = given.arguments.iter().map(String::as_str).collect();
        if arguments != ["list"] {
            return Err(no_action("tls", &[("list", "")], &arguments, "list"));
        }
        let output = if given.json { Output::Json } else { Output::Text };
        Ok(Self { output, admin: given.admin })
    }
}
