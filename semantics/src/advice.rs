//! Advice to the operator: the answer of `explain` in three parts, and the changes that it and the advisor propose. Pure: the facts
//! are counted elsewhere. No proposal shares a response that is private, sets a cookie, or differed between clients.

mod change;
mod finding;
mod large;
mod summary;

pub use change::{
    ChangeFacts, NeededPages, SafeChange, SafeSetting, SettingValue, changes, set_cookie_hint, with_cache,
    with_harmless_directives, without_needless_cookies,
};
pub use finding::{
    Advice, AdviceFacts, AdviceGain, AdviceKind, CountedRoute, Finding, ReasonCount, UncachedRequests, advise,
};
pub use large::LargePage;
pub use summary::{
    CredentialOf, ExplainSummary, ExplainedFacts, NamedCredential, PageAudience, Rightness, UrlErrors,
    summarize,
};

#[cfg(test)]
mod tests;
