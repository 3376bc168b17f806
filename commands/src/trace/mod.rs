//! Traces in files: `larder trace record` writes one, `larder trace plot` plots it. The format of the file is in `file`,
//! and in docs/trace-format.md; the gateway measures requests.

pub mod file;
#[cfg(test)]
mod picture;
pub mod plot;
pub mod record;
mod scale;
mod svg;
