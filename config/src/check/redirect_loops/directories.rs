//! Directories of a configuration for which larder adds a missing slash: those of patterns such as `/app/*`, and those with files.

use crate::{FilesConfig, RouteConfig, Service};
use larder_files::TryMember;
use std::fs;

/// The most names of a directory that are looked at.
const MOST_NAMES: usize = 256;

/// Paths of directories of a route, each with its slash.
pub fn of_route(route: &RouteConfig) -> Vec<String> {
    let own = route.path.directory().map(|it| format!("{it}/"));
    let below = match (&route.service, &own) {
        (Service::Files(files), Some(own)) => of_files(files, own),
        (Service::Files(files), None) if route.path.is_all() => of_files(files, "/"),
        _ => Vec::new(),
    };
    own.into_iter().chain(below).collect()
}

/// The directories in the root of files that are at `base`.
fn of_files(files: &FilesConfig, base: &str) -> Vec<String> {
    let Some(beneath) = own_path(files, base) else { return Vec::new() };
    let Ok(names) = fs::read_dir(files.root.join(beneath.trim_start_matches('/'))) else { return Vec::new() };
    let names = names.take(MOST_NAMES).filter_map(|it| it.ok()?.file_name().into_string().ok());
    let is_plain = |it: &String| it.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it));
    names.filter(is_plain).map(|it| format!("{base}{it}/")).collect()
}

/// Whether files surely redirect this path to itself with a slash. With `has_scripts`, paths without a file are those of PHP in the
/// same directory, where `index.php` is an index, too.
pub fn lacks_slash(files: &FilesConfig, path: &str, has_scripts: bool) -> bool {
    let Some(own) = own_path(files, path) else { return false };
    let name = own.trim_start_matches('/');
    let is_plain = |it: &TryMember| matches!(it, TryMember::Named { before, .. } if before.is_empty());
    let is_other_file = |it: &TryMember| match it {
        TryMember::Named { after, .. } if !after.starts_with('/') && !after.is_empty() => {
            files.root.join(format!("{name}{after}")).exists()
        }
        _ => false,
    };
    // Without an index, the directory belongs to the next route.
    let has_index = || {
        let scripts = has_scripts.then_some("index.php");
        let all = files.index.iter().map(String::as_str).chain(scripts);
        files.listing || all.map(|it| files.root.join(name).join(it)).any(|it| it.is_file())
    };
    !name.is_empty()
        && !name.ends_with('/')
        && !name.split('/').any(|it| it.starts_with('.'))
        && files.members.contains(&TryMember::own())
        && files.members.iter().all(is_plain)
        && !files.members.iter().any(is_other_file)
        && files.root.join(name).is_dir()
        && (!files.fall_through || has_index())
}

/// A path beneath the root.
fn own_path<'a>(files: &FilesConfig, path: &'a str) -> Option<&'a str> {
    let own = path.strip_prefix(files.strip.as_deref().unwrap_or_default())?;
    own.starts_with('/').then_some(own)
}
