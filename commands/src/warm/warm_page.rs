//! One page to request: its URL in parts.

use larder_semantics::scheme::Scheme;
use std::fmt;

/// One page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WarmPage {
    /// Its scheme; `None` if only a path was given.
    pub scheme: Option<Scheme>,
    /// Host and port, without the default port of the scheme; `None` if only a path was given.
    pub authority: Option<String>,
    /// Path and query.
    pub target: String,
}

impl fmt::Display for WarmPage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.scheme, &self.authority) {
            (Some(scheme), Some(authority)) => write!(out, "{}://{authority}{}", scheme.name(), self.target),
            _ => out.write_str(&self.target),
        }
    }
}
