//! A text that no log, page or message shows.

use std::fmt;
use std::sync::Arc;

/// A secret. `Debug` and `Display` do not show it; [`Secret::expose`] is the only way to its text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(Arc<str>);

impl Secret {
    /// A secret with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that uses it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let it = Secret::new("hunter2");
        assert_eq!("(secret) (secret)", format!("{it} {it:?}"));
        assert_eq!("Some((secret))", format!("{:?}", Some(&it)));
        assert_eq!("hunter2", it.expose());
    }
}
