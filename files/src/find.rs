//! The file that answers a path: the members of `files.try` in order, clean URLs, directories and their index. Blocks on the
//! file system; `load` reads the file. [`choose`] only looks, so that `explain` decides as a request does.

use crate::answer::NotServed;
use crate::cache::{EntryBody, OpenFileEntry};
use crate::directory::{DirectoryView, Listing};
use crate::listing::{self, ListingFormat};
use crate::load::{self, join};
use crate::members::{self, Navigation, TryMember};
use crate::path;
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

/// The answer to a path, found without reading a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChoice {
    /// The answer.
    pub answer: PathAnswer,
    /// The option that decided.
    pub by: FileRule,
}

/// An answer to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathAnswer {
    /// This file beneath the root, without a slash in front.
    File(Vec<u8>, Identity),
    /// The file of a member that answers many paths, with a slash in front.
    Page {
        /// Its path.
        page: Box<str>,
        /// Its state.
        identity: Identity,
        /// Whether it answers because of `Accept`.
        by_accept: bool,
    },
    /// The names in this directory beneath the root.
    Listing(Vec<u8>),
    /// 301 to another path of the same host.
    Redirect(Vec<u8>),
}

/// The option of a served directory that decides about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRule {
    /// The member of `files.try` at this position.
    Member(usize),
    /// `files.index`, in the directory of a member at this position.
    Index(usize),
    /// `files.listing`.
    Listing,
    /// `files.clean_urls`: each page has one URL.
    CleanUrl,
    /// The URL of a directory ends with a slash.
    Slash,
    /// A path has no empty segment.
    Merged,
    /// `files.strip`: the prefix itself.
    Strip,
}

impl PathAnswer {
    fn by(self, by: FileRule) -> PathChoice {
        PathChoice { answer: self, by }
    }
}

/// Finds the file of a path, or that of the key of a page, and reads it.
///
/// # Errors
/// The reason for serving no file.
pub fn find(root: &DirectoryView<'_>, job: &LookupJob) -> Result<Loaded, NotServed> {
    if let Some(page) = load::page_of(&job.path) {
        return load::shared(root, page, job.now).map(Loaded::Entry);
    }
    match choose(root, job)?.answer {
        PathAnswer::File(file, identity) => {
            load::entry(root, &job.path, job.now, &file, identity).map(Loaded::Entry)
        }
        PathAnswer::Page { page, identity, by_accept } => shared(root, job, &page, identity, by_accept),
        PathAnswer::Listing(beneath) => {
            listing::make(root, &job.path, &beneath, job.format).map(Loaded::Answer)
        }
        PathAnswer::Redirect(path) => Ok(Loaded::Answer(redirect(&path, &job.query))),
    }
}

/// Decides about a path. Only looks at the names.
///
/// # Errors
/// The reason for serving no file.
pub fn choose(root: &DirectoryView<'_>, job: &LookupJob) -> Result<PathChoice, NotServed> {
    let own = &job.path[job.skip..];
    if own.is_empty() {
        // The stripped prefix itself.
        return match redirects(root, b"/")? {
            true => Ok(to_directory(job).by(FileRule::Strip)),
            false => Err(NotServed::NotFound),
        };
    }
    if root.options.clean_urls
        && let Some(path) = clean(root, job, own)?
    {
        return Ok(PathAnswer::Redirect(path).by(FileRule::CleanUrl));
    }
    let mut is_directory = false;
    for (at, member) in root.options.members.iter().enumerate() {
        let found = match member {
            TryMember::Named { before, after } => {
                named(root, job, at, (before, own, after), &mut is_directory)?
            }
            // A directory with an index is found before the page for every path; its redirect is due now.
            _ if is_directory && has_index(root, own)? => Some(to_directory(job).by(FileRule::Slash)),
            TryMember::Fixed(page) => page_of(root, page, false)?.map(|it| it.by(FileRule::Member(at))),
            TryMember::Page(_) if job.navigation == Navigation::No => None,
            TryMember::Page(page) => {
                let by_accept = job.navigation == Navigation::ByAccept;
                page_of(root, page, by_accept)?.map(|it| it.by(FileRule::Member(at)))
            }
            TryMember::Status(410) => return Err(NotServed::Gone),
            TryMember::Status(_) => return Err(NotServed::NotFound),
        };
        if let Some(found) = found {
            return Ok(found);
        }
    }
    match is_directory && redirects(root, own)? {
        true => Ok(to_directory(job).by(FileRule::Slash)),
        false => Err(NotServed::NotFound),
    }
}

/// The member `before{path}after` at the position `at`; `own` is the path. A directory without a slash at its end is noted, as a later
/// member may name a file.
fn named(
    root: &DirectoryView<'_>,
    job: &LookupJob,
    at: usize,
    (before, own, after): (&str, &[u8], &str),
    is_directory: &mut bool,
) -> Result<Option<PathChoice>, NotServed> {
    let Some(path) = members::expand(before, own, after, root.options.dotfiles) else { return Ok(None) };
    if path.ends_with(b"/") {
        return directory(root, job, at, &path);
    }
    match look(root, &path[1..])? {
        Some(FileNode::File(identity)) => {
            let slash = own.ends_with(b"/");
            if after.starts_with('/') && !slash {
                // The index: relative links in it begin in its directory.
                return Ok(Some(to_directory(job).by(FileRule::Slash)));
            }
            let name = path::name_of(&path);
            if root.options.clean_urls && after.as_bytes() == HTML && is_index(root, name) {
                let parent = job.path.iter().rposition(|it| *it == b'/').map_or(0, |it| it + 1);
                let parent = PathAnswer::Redirect(job.path[..parent].to_owned());
                return Ok(Some(parent.by(FileRule::CleanUrl)));
            }
            Ok(Some(PathAnswer::File(path[1..].to_owned(), identity).by(FileRule::Member(at))))
        }
        Some(FileNode::Directory(_)) => {
            *is_directory |= before.is_empty() && after.is_empty();
            Ok(None)
        }
        None => Ok(None),
    }
}

/// The index of a directory, or its listing; a redirect to it if the path has no slash at its end.
fn directory(
    root: &DirectoryView<'_>,
    job: &LookupJob,
    at: usize,
    path: &[u8],
) -> Result<Option<PathChoice>, NotServed> {
    let beneath = path[1..].strip_suffix(b"/").unwrap_or_default();
    let Some(FileNode::Directory(_)) = look(root, beneath)? else { return Ok(None) };
    let index = index(root, beneath)?;
    if !job.path.ends_with(b"/") {
        let is_served = index.is_some() || root.options.listing == Listing::On;
        return Ok(is_served.then(|| to_directory(job).by(FileRule::Slash)));
    }
    Ok(match (index, root.options.listing) {
        (Some((file, identity)), _) => Some(PathAnswer::File(file, identity).by(FileRule::Index(at))),
        (None, Listing::On) => Some(PathAnswer::Listing(beneath.to_owned()).by(FileRule::Listing)),
        (None, Listing::Off) => None,
    })
}

/// The first index file of a directory.
fn index(root: &DirectoryView<'_>, directory: &[u8]) -> Result<Option<(Vec<u8>, Identity)>, NotServed> {
    for name in &root.options.index {
        let path = join(directory, name.as_bytes());
        if let Some(FileNode::File(identity)) = look(root, &path)? {
            return Ok(Some((path, identity)));
        }
    }
    Ok(None)
}

fn has_index(root: &DirectoryView<'_>, own: &[u8]) -> Result<bool, NotServed> {
    Ok(root.options.listing == Listing::On || index(root, &own[1..])?.is_some())
}

/// Whether the path of a directory without its slash is redirected. One without an index belongs to the next route, if there is
/// any; otherwise a redirect to a 404 shows that only the slash was missing.
fn redirects(root: &DirectoryView<'_>, own: &[u8]) -> Result<bool, NotServed> {
    Ok(!root.options.fall_through || has_index(root, own)?)
}

fn is_index(root: &DirectoryView<'_>, name: &[u8]) -> bool {
    root.options.index.iter().any(|it| it.as_bytes() == name)
}

/// The redirect to the one URL of a page: without `.html`, without the name of an index, without a slash that belongs to no
/// directory. Only where the page then answers there.
fn clean(root: &DirectoryView<'_>, job: &LookupJob, own: &[u8]) -> Result<Option<Vec<u8>>, NotServed> {
    let start = own.iter().rposition(|it| *it == b'/').map_or(0, |it| it + 1);
    let name = &own[start..];
    let is_file = |path: &[u8]| look(root, path).map(|it| matches!(it, Some(FileNode::File(_))));
    if name.is_empty() {
        let page = own[1..].strip_suffix(b"/").unwrap_or_default();
        let is_page = !page.is_empty()
            && !path::is_script(page)
            && members::expand("", &own[..own.len() - 1], ".html", root.options.dotfiles).is_some()
            && look(root, page)?.is_none()
            && is_file(&[page, HTML].concat())?;
        return Ok(is_page.then(|| job.path[..job.path.len() - 1].to_owned()));
    }
    let Some(stem) = name.strip_suffix(HTML).filter(|it| !it.is_empty()) else { return Ok(None) };
    if !is_file(&own[1..])? || path::is_script(stem) {
        return Ok(None); // The URL without the extension is that of a script, which is not found.
    }
    if is_index(root, name) {
        let directory = own[1..start].strip_suffix(b"/").unwrap_or_default();
        let is_first = index(root, directory)?.is_some_and(|it| it.0 == own[1..]);
        let end = job.path.len() - name.len();
        return Ok(is_first.then(|| job.path[..end].to_owned()));
    }
    let page = [&own[1..start], stem].concat();
    let end = job.path.len() - HTML.len();
    Ok((!is_file(&page)?).then(|| job.path[..end].to_owned()))
}

/// `look` where nothing, or nothing that is served, is no error.
fn look(root: &DirectoryView<'_>, path: &[u8]) -> Result<Option<FileNode>, NotServed> {
    match resolve::look(root.fd(), path, root.options.rules()) {
        Ok(node) => Ok(Some(node)),
        Err(NotServed::NotFound) => Ok(None),
        Err(other) => Err(other),
    }
}

/// The file of a member for many paths, if it exists.
fn page_of(root: &DirectoryView<'_>, page: &str, by_accept: bool) -> Result<Option<PathAnswer>, NotServed> {
    if !path::is_canonical(page.as_bytes(), root.options.dotfiles) {
        return Ok(None);
    }
    Ok(match look(root, &page.as_bytes()[1..])? {
        Some(FileNode::File(identity)) => Some(PathAnswer::Page { page: page.into(), identity, by_accept }),
        Some(FileNode::Directory(_)) | None => None,
    })
}

/// The file for every path. The requested path gets an entry that names it, unless the response depends on `Accept`.
fn shared(
    root: &DirectoryView<'_>,
    job: &LookupJob,
    page: &str,
    identity: Identity,
    by_accept: bool,
) -> Result<Loaded, NotServed> {
    let page = page.as_bytes();
    let file = load::entry(root, &load::page_key(page), job.now, &page[1..], identity)?;
    if by_accept {
        return Ok(Loaded::Shared { file, path: None });
    }
    let previous = root.cache.held(&job.path);
    let path = match previous.filter(|it| it.is_same_as(&file.path)) {
        Some(same) => {
            same.still_holds(job.now);
            same
        }
        None => Arc::new(OpenFileEntry::new(&job.path, EntryBody::SameAs((&*file.path).into()), job.now)),
    };
    Ok(Loaded::Shared { file, path: Some(path) })
}

/// The same path with a slash, so that relative links in the index work.
fn to_directory(job: &LookupJob) -> PathAnswer {
    PathAnswer::Redirect([&job.path, &b"/"[..]].concat())
}

/// 301 to another path of the same host.
pub fn redirect(path: &[u8], query: &str) -> Synthetic {
    let page = Synthetic::page(301, "This resource has another URL.");
    page.with("Location", location(path, query))
}

/// The `Location` of a redirect to a path: it has no empty segment, so it cannot be interpreted as another host.
pub fn location(path: &[u8], query: &str) -> String {
    let mut location = String::with_capacity(path.len() + query.len());
    path::encode(path, &mut location);
    location.push_str(query);
    location
}

/// Whether the page of `files.not_found` exists.
pub fn has_page(root: &DirectoryView<'_>, page: &str) -> bool {
    page_of(root, page, false).is_ok_and(|it| it.is_some())
}
