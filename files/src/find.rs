//! The file that answers a path: the members of `files.try` in order, clean URLs, directories and their index. Blocks on the
//! file system; `load` reads the file.

use crate::answer::NotServed;
use crate::cache::{EntryBody, OpenFileEntry};
use crate::directory::{Listing, ServedDirectory};
use crate::listing::{self, ListingFormat};
use crate::load::{self, join};
use crate::members::{self, Navigation, TryMember};
use crate::resolve::{self, FileNode, Identity};
use larder_stdx::clock::Monotonic;
use larder_transport::Synthetic;
use std::sync::Arc;

/// One lookup with its inputs.
pub struct LookupJob {
    /// The decoded path, prefix included, or that of a page (see [`load::page_key`]): the key of the cache.
    pub path: Box<[u8]>,
    /// The offset in it of the path beneath the root.
    pub skip: usize,
    /// The query with its question mark, for redirects.
    pub query: Box<str>,
    /// The format of a listing.
    pub format: ListingFormat,
    /// Whether the page of an application may answer it.
    pub navigation: Navigation,
    /// Monotonic milliseconds.
    pub now: Monotonic,
}

/// The result of a lookup.
pub enum Loaded {
    /// A file, new or unchanged.
    Entry(Arc<OpenFileEntry>),
    /// A file that answers many paths.
    Shared {
        /// Its entry, new or unchanged.
        file: Arc<OpenFileEntry>,
        /// The entry of the requested path, new or unchanged, unless it depends on `Accept`.
        path: Option<Arc<OpenFileEntry>>,
    },
    /// A redirect, or the listing of a directory.
    Answer(Synthetic),
}

/// The extension that clean URLs omit.
const HTML: &[u8] = b".html";

/// Finds the file of a path, or that of the key of a page.
///
/// # Errors
/// The reason for serving no file.
pub fn find(root: &ServedDirectory, job: &LookupJob) -> Result<Loaded, NotServed> {
    if let Some(page) = load::page_of(&job.path) {
        return load::shared(root, page, job.now).map(Loaded::Entry);
    }
    let own = &job.path[job.skip..];
    if own.is_empty() {
        // The stripped prefix itself.
        return if redirects(root, b"/")? { Ok(to_directory(job)) } else { Err(NotServed::NotFound) };
    }
    if root.options.clean_urls
        && let Some(answer) = clean(root, job, own)?
    {
        return Ok(answer);
    }
    let mut is_directory = false;
    for member in &root.options.members {
        let found = match member {
            TryMember::Named { before, after } => named(root, job, (before, own, after), &mut is_directory)?,
            // A directory with an index is found before the page for every path; its redirect is due now.
            _ if is_directory && has_index(root, own)? => return Ok(to_directory(job)),
            TryMember::Fixed(page) => shared(root, job, page, false)?,
            TryMember::Page(_) if job.navigation == Navigation::No => None,
            TryMember::Page(page) => shared(root, job, page, job.navigation == Navigation::ByAccept)?,
            TryMember::Status(410) => return Err(NotServed::Gone),
            TryMember::Status(_) => return Err(NotServed::NotFound),
        };
        if let Some(found) = found {
            return Ok(found);
        }
    }
    if is_directory && redirects(root, own)? { Ok(to_directory(job)) } else { Err(NotServed::NotFound) }
}

/// The member `before{path}after`; `own` is the path. A directory without a slash at its end is noted, as a later member
/// may name a file.
fn named(
    root: &ServedDirectory,
    job: &LookupJob,
    (before, own, after): (&str, &[u8], &str),
    is_directory: &mut bool,
) -> Result<Option<Loaded>, NotServed> {
    let Some(path) = members::expand(before, own, after, root.options.dotfiles) else { return Ok(None) };
    if path.ends_with(b"/") {
        return directory(root, job, &path);
    }
    match look(root, &path[1..])? {
        Some(FileNode::File(identity)) => {
            let slash = own.ends_with(b"/");
            if after.starts_with('/') && !slash {
                return Ok(Some(to_directory(job))); // The index: relative links in it begin in its directory.
            }
            let name = path.rsplit(|it| *it == b'/').next().unwrap_or_default();
            if root.options.clean_urls && after.as_bytes() == HTML && is_index(root, name) {
                let parent = job.path.iter().rposition(|it| *it == b'/').map_or(0, |it| it + 1);
                return Ok(Some(redirect(&job.path[..parent], &job.query)));
            }
            entry(root, job, &path[1..], identity).map(Some)
        }
        Some(FileNode::Directory(_)) => {
            *is_directory |= before.is_empty() && after.is_empty();
            Ok(None)
        }
        None => Ok(None),
    }
}

/// The index of a directory, or its listing; a redirect to it if the path has no slash at its end.
fn directory(root: &ServedDirectory, job: &LookupJob, path: &[u8]) -> Result<Option<Loaded>, NotServed> {
    let beneath = path[1..].strip_suffix(b"/").unwrap_or_default();
    let Some(FileNode::Directory(_)) = look(root, beneath)? else { return Ok(None) };
    let index = index(root, beneath)?;
    if !job.path.ends_with(b"/") {
        return Ok((index.is_some() || root.options.listing == Listing::On).then(|| to_directory(job)));
    }
    match (index, root.options.listing) {
        (Some((file, identity)), _) => entry(root, job, &file, identity).map(Some),
        (None, Listing::On) => {
            listing::make(root, &job.path, beneath, job.format).map(|it| Some(Loaded::Answer(it)))
        }
        (None, Listing::Off) => Ok(None),
    }
}

/// The first index file of a directory.
fn index(root: &ServedDirectory, directory: &[u8]) -> Result<Option<(Vec<u8>, Identity)>, NotServed> {
    for name in &root.options.index {
        let path = join(directory, name.as_bytes());
        if let Some(FileNode::File(identity)) = look(root, &path)? {
            return Ok(Some((path, identity)));
        }
    }
    Ok(None)
}

fn has_index(root: &ServedDirectory, own: &[u8]) -> Result<bool, NotServed> {
    Ok(root.options.listing == Listing::On || index(root, &own[1..])?.is_some())
}

/// Whether the path of a directory without its slash is redirected. One without an index belongs to the next route, if there is
/// any; otherwise a redirect to a 404 shows that only the slash was missing.
fn redirects(root: &ServedDirectory, own: &[u8]) -> Result<bool, NotServed> {
    Ok(!root.options.fall_through || has_index(root, own)?)
}

fn is_index(root: &ServedDirectory, name: &[u8]) -> bool {
    root.options.index.iter().any(|it| it.as_bytes() == name)
}

/// The redirect to the one URL of a page: without `.html`, without the name of an index, without a slash that belongs to no
/// directory. Only where the page then answers there.
fn clean(root: &ServedDirectory, job: &LookupJob, own: &[u8]) -> Result<Option<Loaded>, NotServed> {
    let start = own.iter().rposition(|it| *it == b'/').map_or(0, |it| it + 1);
    let name = &own[start..];
    let is_file = |path: &[u8]| look(root, path).map(|it| matches!(it, Some(FileNode::File(_))));
    if name.is_empty() {
        let page = own[1..].strip_suffix(b"/").unwrap_or_default();
        let is_page = !page.is_empty()
            && members::expand("", &own[..own.len() - 1], ".html", root.options.dotfiles).is_some()
            && look(root, page)?.is_none()
            && is_file(&[page, HTML].concat())?;
        return Ok(is_page.then(|| redirect(&job.path[..job.path.len() - 1], &job.query)));
    }
    let Some(stem) = name.strip_suffix(HTML).filter(|it| !it.is_empty()) else { return Ok(None) };
    if !is_file(&own[1..])? {
        return Ok(None);
    }
    if is_index(root, name) {
        let directory = own[1..start].strip_suffix(b"/").unwrap_or_default();
        let is_first = index(root, directory)?.is_some_and(|it| it.0 == own[1..]);
        let end = job.path.len() - name.len();
        return Ok(is_first.then(|| redirect(&job.path[..end], &job.query)));
    }
    let page = [&own[1..start], stem].concat();
    let end = job.path.len() - HTML.len();
    Ok((!is_file(&page)?).then(|| redirect(&job.path[..end], &job.query)))
}

/// `look` where nothing is no error.
fn look(root: &ServedDirectory, path: &[u8]) -> Result<Option<FileNode>, NotServed> {
    match resolve::look(root.fd(), path, root.options.symlinks) {
        Ok(node) => Ok(Some(node)),
        Err(NotServed::NotFound) => Ok(None),
        Err(other) => Err(other),
    }
}

fn entry(
    root: &ServedDirectory,
    job: &LookupJob,
    file: &[u8],
    identity: Identity,
) -> Result<Loaded, NotServed> {
    load::entry(root, &job.path, job.now, file, identity).map(Loaded::Entry)
}

/// The file for every path. The requested path gets an entry that names it, unless the response depends on `Accept`.
fn shared(
    root: &ServedDirectory,
    job: &LookupJob,
    page: &str,
    by_accept: bool,
) -> Result<Option<Loaded>, NotServed> {
    let file = match load::shared(root, page.as_bytes(), job.now) {
        Ok(file) => file,
        Err(NotServed::NotFound) => return Ok(None),
        Err(other) => return Err(other),
    };
    if by_accept {
        return Ok(Some(Loaded::Shared { file, path: None }));
    }
    let previous = root.cache.held(&job.path);
    let path = match previous.filter(|it| it.is_same_as(&file.path)) {
        Some(same) => {
            same.still_holds(job.now);
            same
        }
        None => Arc::new(OpenFileEntry::new(&job.path, EntryBody::SameAs((&*file.path).into()), job.now)),
    };
    Ok(Some(Loaded::Shared { file, path: Some(path) }))
}

/// 301 to the same path with a slash, so that relative links in the index work.
fn to_directory(job: &LookupJob) -> Loaded {
    redirect(&[&job.path, &b"/"[..]].concat(), &job.query)
}

/// 301 to another path of the same host: it has no empty segment, so it cannot be interpreted as another host.
fn redirect(path: &[u8], query: &str) -> Loaded {
    let mut location = String::with_capacity(path.len() + query.len());
    crate::path::encode(path, &mut location);
    location.push_str(query);
    let page = Synthetic::page(301, "This resource has another URL.");
    Loaded::Answer(page.with("Location", location))
}
