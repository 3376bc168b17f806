//! The blocking part of a lookup: it finds the file, its siblings or the directory's index, and reads small files. Runs
//! on the pool only.

use crate::answer::NotServed;
use crate::cache::OpenFileEntry;
use crate::listing::{self, ListingFormat};
use crate::media::media_type;
use crate::negotiate::SiblingCoding;
use crate::open_file::{Dress, FileContents, OpenFile};
use crate::resolve::{self, FileNode, Identity};
use crate::root::{Listing, Root, RootOptions};
use crate::sums::FileSums;
use bytes::Bytes;
use larder_stdx::clock::{self, Monotonic};
use larder_transport::{PLAIN_TEXT, Synthetic};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The number of attempts to read a file that is written to meanwhile.
const TRIES: usize = 5;
/// Bytes compared at a time.
const CHUNK: usize = 64 << 10;

/// One lookup with its inputs.
pub struct LookupJob {
    /// The decoded path, prefix included: the key of the cache.
    pub path: Box<[u8]>,
    /// The offset in it of the path beneath the root.
    pub skip: usize,
    /// The query with its question mark, for redirects.
    pub query: Box<str>,
    /// The format of a listing.
    pub format: ListingFormat,
    /// The cached entry, to be kept if the file is unchanged.
    pub previous: Option<Arc<OpenFileEntry>>,
    /// Monotonic milliseconds.
    pub now: Monotonic,
}

/// The result of a lookup.
pub enum Loaded {
    /// A file, new or unchanged.
    Entry(Arc<OpenFileEntry>),
    /// A redirect to the directory, or its listing.
    Answer(Synthetic),
}

/// Performs one lookup.
///
/// # Errors
/// The reason for serving no file.
pub fn load(root: &Root, job: &LookupJob) -> Result<Loaded, NotServed> {
    let symlinks = root.options.symlinks;
    let beneath = &job.path[job.skip..];
    let beneath = beneath.strip_prefix(b"/").unwrap_or(beneath);
    let Some(directory) = beneath.strip_suffix(b"/").or_else(|| (beneath.is_empty()).then_some(beneath))
    else {
        return match resolve::look(root.directory(), beneath, symlinks)? {
            FileNode::File(identity) => entry(root, job, beneath, identity),
            FileNode::Directory(_) => Ok(Loaded::Answer(to_directory(job))),
        };
    };
    if !job.path.ends_with(b"/") {
        return Ok(Loaded::Answer(to_directory(job))); // The stripped prefix itself.
    }
    match resolve::look(root.directory(), directory, symlinks)? {
        FileNode::File(_) => Err(NotServed::NotFound),
        FileNode::Directory(_) => index_or_listing(root, job, directory),
    }
}

fn index_or_listing(root: &Root, job: &LookupJob, directory: &[u8]) -> Result<Loaded, NotServed> {
    for name in &root.options.index {
        let path = join(directory, name.as_bytes());
        match resolve::look(root.directory(), &path, root.options.symlinks) {
            Ok(FileNode::File(identity)) => return entry(root, job, &path, identity),
            Ok(FileNode::Directory(_)) | Err(NotServed::NotFound) => {}
            Err(other) => return Err(other),
        }
    }
    match root.options.listing {
        Listing::Off => Err(NotServed::NotFound),
        Listing::On => listing::make(root, &job.path, directory, job.format).map(Loaded::Answer),
    }
}

/// 301 to the same path with a slash, so that relative links in the index work. The path has no empty segment, so it
/// cannot be interpreted as another host.
fn to_directory(job: &LookupJob) -> Synthetic {
    let mut location = String::with_capacity(job.path.len() + job.query.len() + 1);
    crate::path::encode(&job.path, &mut location);
    location.push('/');
    location.push_str(&job.query);
    Synthetic::new(301, PLAIN_TEXT, "This resource is a directory.\n").with("Location", location)
}

/// The entry for a file whose state is `identity`: unchanged forms are taken from the previous one.
fn entry(root: &Root, job: &LookupJob, file: &[u8], identity: Identity) -> Result<Loaded, NotServed> {
    let previous = job.previous.as_deref();
    let found = if root.options.precompressed { siblings(root, file, &identity) } else { Vec::new() };
    let unchanged = |it: &OpenFileEntry| {
        let states = it.coded.iter().map(|it| (it.0, it.1.identity));
        it.plain.identity == identity && states.eq(found.iter().copied())
    };
    if let Some(same) = job.previous.as_ref().filter(|it| unchanged(it)) {
        same.still_holds(job.now);
        return Ok(Loaded::Entry(same.clone()));
    }
    let name = file.rsplit(|it| *it == b'/').next().unwrap_or(file);
    let media_type = media_type(name, &root.options.media_types);
    let varies = !found.is_empty();
    let dress = |coding| Dress {
        media_type: &media_type,
        coding,
        varies,
        cache_control: root.options.cache_control.as_deref(),
    };
    let kept = previous.filter(|it| it.plain.identity == identity && it.coded.is_empty() != varies);
    let plain = match kept {
        Some(kept) => kept.plain.clone(),
        None => open(root, file, &dress(None))?,
    };
    let mut coded = Vec::with_capacity(found.len());
    for (coding, _) in found {
        // A sibling that was removed meanwhile counts as absent.
        if let Ok(sibling) = open(root, &with_suffix(file, coding), &dress(Some(coding.token()))) {
            coded.push((coding, sibling));
        }
    }
    Ok(Loaded::Entry(Arc::new(OpenFileEntry::new(&job.path, plain, coded, job.now))))
}

/// The siblings that may replace a file: regular, and not older than it.
fn siblings(root: &Root, file: &[u8], original: &Identity) -> Vec<(SiblingCoding, Identity)> {
    let state =
        |coding| match resolve::look(root.directory(), &with_suffix(file, coding), root.options.symlinks) {
            Ok(FileNode::File(it)) if it.modified >= original.modified && it.size > 0 => Some((coding, it)),
            _ => None,
        };
    SiblingCoding::ALL.into_iter().filter_map(state).collect()
}

fn with_suffix(file: &[u8], coding: SiblingCoding) -> Vec<u8> {
    [file, coding.suffix().as_bytes()].concat()
}

/// The path of a name in a directory, both beneath the root.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, name].join(&b'/') }
}

fn open(root: &Root, path: &[u8], dress: &Dress<'_>) -> Result<Arc<OpenFile>, NotServed> {
    let (fd, identity) = resolve::open_file(root.directory(), path, root.options.symlinks)?;
    let (contents, identity) = read_whole(File::from(fd), identity, &root.options)?;
    Ok(Arc::new(OpenFile::new(contents, identity, dress, clock::wall(), &root.counters)))
}

/// Reads the contents of a file that is not too large, without bytes of another version: its state is the same before and
/// after; or it has grown, and a second reading finds the same bytes.
fn read_whole(
    file: File,
    mut identity: Identity,
    options: &RootOptions,
) -> Result<(FileContents, Identity), NotServed> {
    for _ in 0..TRIES {
        let size = identity.size;
        let taken = if size <= options.small_file {
            read_at_most(&file, size).map(|it| (it.len() as u64, FileContents::Bytes(it)))
        } else if size <= options.copied_file {
            copy_at_most(&file, size).map(|(length, copy)| (length, FileContents::Copy(copy)))
        } else {
            let sums = FileSums::of(file.as_fd(), &identity, clock::wall());
            let sums = sums.map_err(|it| not_taken(&it.into()))?;
            return Ok((FileContents::Descriptor(file.into(), sums), identity));
        };
        let (length, contents) = taken.map_err(|it| not_taken(&it))?;
        let after = Identity::of(&fstat(&file).map_err(resolve::refusal)?);
        let is_same = after.same_bytes(&identity)
            || after.has_grown(&identity) && holds(&file, &contents).map_err(|it| not_taken(&it))?;
        if is_same && length == size {
            return Ok((contents, identity));
        }
        identity = after;
    }
    Err(NotServed::Busy)
}

/// Whether the file still begins with the bytes that were read.
fn holds(file: &File, contents: &FileContents) -> std::io::Result<bool> {
    let copy = match contents {
        FileContents::Bytes(bytes) => return Ok(read_at_most(file, bytes.len() as u64)? == *bytes),
        FileContents::Copy(copy) => copy,
        FileContents::Descriptor(..) => return Ok(true),
    };
    let (mut at, mut room, mut again) = (0, vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let count = rustix::io::pread(copy, &mut room[..], at)?;
        if count == 0 {
            return Ok(true);
        }
        match file.read_exact_at(&mut again[..count], at) {
            Ok(()) if room[..count] == again[..count] => at += count as u64,
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// The refusal after a failed read: with too few descriptors or too little memory, the client may try again.
fn not_taken(error: &std::io::Error) -> NotServed {
    match Errno::from_io_error(error).map(resolve::refusal) {
        Some(it @ (NotServed::Busy | NotServed::NoDescriptor)) => it,
        _ => NotServed::Failed,
    }
}

/// The first `size` bytes, or fewer if the file is shorter, in memory that the kernel can send from.
fn copy_at_most(file: &File, size: u64) -> std::io::Result<(u64, OwnedFd)> {
    let mut copy = File::from(memfd_create("larder-file", MemfdFlags::CLOEXEC)?);
    (&*file).rewind()?;
    let length = std::io::copy(&mut file.take(size), &mut copy)?;
    Ok((length, copy.into()))
}

/// The first `size` bytes, or fewer if the file is shorter.
fn read_at_most(file: &File, size: u64) -> std::io::Result<Bytes> {
    #[allow(clippy::cast_possible_truncation, reason = "bounded by `small_file`")]
    let mut bytes = vec![0; size as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    let bytes = Bytes::from(bytes);
    drop(bytes.clone()); // The first clone allocates the count: here, rather than in the first hit.
    Ok(bytes)
}
