//! What is wrong with an operator's request. What is answered to it is the admin's.

/// What is wrong with a request, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// A key of the body, a parameter, a line and column.
    pub at: String,
    /// One sentence.
    pub detail: String,
}

impl InputError {
    /// With this sentence.
    pub fn at(at: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { at: at.into(), detail: detail.into() }
    }
}
