//! Checks of a command's arguments before a larder is contacted: missing files, and a malformed address.

use crate::admin_client;
use crate::cli::{AdminTarget, Command, OverlayWhat, TraceCommand};
use larder_stdx::error::plain;
use std::path::Path;

/// Whether the files of a command exist and are valid, and the variable for the admin is well-formed.
///
/// # Errors
/// One sentence with the error.
pub fn check(command: &Command) -> Result<(), String> {
    let admin = match command {
        Command::Explain(it) => it.admin.as_ref(),
        Command::Overlay(it) => {
            if let OverlayWhat::Add { file, .. } = &it.what {
                readable(file)?;
            }
            it.admin.as_ref()
        }
        Command::Tls(it) => it.admin.as_ref(),
        Command::Origin(it) => it.admin.as_ref(),
        Command::Maintenance(it) => it.admin.as_ref(),
        Command::Purge(it) => it.admin.as_ref(),
        Command::Objects(it) => it.admin.as_ref(),
        Command::Stats(it) | Command::Advice(it) => it.admin.as_ref(),
        Command::Login(it) => it.admin.as_ref(),
        Command::Upgrade(it) => it.admin.as_ref(),
        Command::Tail(it) => it.admin.as_ref(),
        Command::Top(it) => it.admin.as_ref(),
        Command::Warm(it) => it.admin.as_ref(),
        Command::Trace(TraceCommand::Record(it)) => it.admin.as_ref(),
        _ => return Ok(()),
    };
    match admin {
        Some(AdminTarget::At(_)) => Ok(()),
        Some(AdminTarget::Of(file)) => admin_client::check_configuration(file),
        None => admin_client::named_by_variable().map(drop),
    }
}

fn exists(file: &Path) -> Result<(), String> {
    file.metadata().map(drop).map_err(|it| format!("{} cannot be read: {}.", file.display(), plain(&it)))
}

/// A pipe is not opened for the check: its content can be read only once.
fn readable(file: &Path) -> Result<(), String> {
    if file.as_os_str() == "-" {
        return Ok(());
    }
    exists(file)?;
    if file.is_dir() {
        return Err(format!("{} is a directory; an overlay is one file.", file.display()));
    }
    match file.is_file() {
        true => std::fs::File::open(file)
            .map(drop)
            .map_err(|it| format!("{} cannot be read: {}.", file.display(), plain(&it))),
        false => Ok(()),
    }
}
