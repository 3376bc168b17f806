//! Traces in files: `larder trace record` writes one, `larder trace plot` draws it. The form of the file is in `file`, and in
//! docs/trace-format.md; how requests are timed is the gateway's.

pub mod file;
#[cfg(test)]
mod picture;
pub mod plot;
pub mod record;
mod scale;
mod svg;
