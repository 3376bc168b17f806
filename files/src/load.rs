//! The blocking part of a lookup: it reads a file and its siblings, and makes forms. Runs on the pool only.

use crate::answer::NotServed;
use crate::cache::{EntryBody, OpenFileEntry};
use crate::directory::{DirectoryView, RootOptions, ServedDirectory};
use crate::file_checksums::FileChecksums;
use crate::forms::{Encoded, FileForms};
use crate::media::media_type;
use crate::negotiate::FileCoding;
use crate::open_file::{FileContents, FileHeadFields, OpenFile};
use crate::path;
use crate::resolve::{self, FileNode, Identity};
use bytes::Bytes;
use larder_semantics::transcode;
use larder_stdx::clock::{self, Monotonic};
use larder_transport::body::{BodyPiece, FileSlice};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The number of attempts to read a file that is written to meanwhile.
const TRIES: usize = 5;
/// Bytes compared at a time.
const CHUNK: usize = 64 << 10;

/// The key of a file that answers many paths. No path of a request has a NUL.
pub fn page_key(file: &[u8]) -> Box<[u8]> {
    [b"\0", file].concat().into()
}

/// The file of such a key.
pub fn page_of(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(b"\0")
}

/// The entry of a file that answers many paths: `page` beneath the root. It is always compared with the disk, so that no
/// path shows it longer than its own entry would.
pub fn shared(
    root: &DirectoryView<'_>,
    page: &[u8],
    now: Monotonic,
) -> Result<Arc<OpenFileEntry>, NotServed> {
    if !path::is_canonical(page, root.options.dotfiles) {
        return Err(NotServed::NotFound);
    }
    let key = page_key(page);
    let file = &page[1..];
    match resolve::look(root.fd(), file, root.options.rules())? {
        FileNode::File(identity) => entry(root, &key, now, file, identity),
        FileNode::Directory(_) => Err(NotServed::NotFound),
    }
}

/// The entry of `key` for a file whose state is `identity`: the one in the cache if it is unchanged, and otherwise its
/// unchanged forms.
pub fn entry(
    root: &DirectoryView<'_>,
    key: &[u8],
    now: Monotonic,
    file: &[u8],
    identity: Identity,
) -> Result<Arc<OpenFileEntry>, NotServed> {
    let previous = root.cache.held(key);
    let forms = previous.as_ref().and_then(|it| it.forms());
    let found = if root.options.precompressed { siblings(root, file, &identity) } else { Vec::new() };
    let unchanged = |it: &FileForms| {
        let states = it.coded.iter().map(|it| (it.0, it.1.identity));
        it.plain.identity == identity && states.eq(found.iter().copied())
    };
    if let Some(same) = previous.as_ref().filter(|_| forms.is_some_and(unchanged)) {
        same.still_holds(now);
        return Ok(same.clone());
    }
    let media_type = media_type(path::name_of(file), &root.options.media_types);
    let compress = root
        .options
        .compress
        .as_ref()
        .map(|it| &*it.rules)
        .filter(|rules| transcode::is_worth_coding(media_type.as_bytes(), Some(identity.size), rules));
    let varies = !found.is_empty() || compress.is_some();
    let head_fields = |coding| FileHeadFields {
        media_type: &media_type,
        coding,
        varies,
        cache_control: root.options.cache_control.as_deref(),
    };
    let kept = forms.filter(|it| it.plain.identity == identity && it.plain.varies() == varies);
    let plain = match kept {
        Some(kept) => kept.plain.clone(),
        None => open(root, file, &head_fields(None))?,
    };
    let mut coded = Vec::with_capacity(found.len());
    for (coding, _) in found {
        // A sibling that was removed meanwhile counts as absent.
        if let Ok(sibling) = open(root, &with_suffix(file, coding), &head_fields(Some(coding.token()))) {
            coded.push((coding, sibling));
        }
    }
    let body = EntryBody::Own(FileForms::new(plain, coded, compress));
    Ok(Arc::new(OpenFileEntry::new(key, body, now)))
}

/// Makes one form of a file. Blocks.
pub fn make_form(root: &ServedDirectory, plain: &OpenFile, coding: FileCoding) -> Encoded {
    let Some(compress) = &root.options.compress else { return Encoded::NoGain };
    let bytes = match &plain.body {
        BodyPiece::Bytes(bytes) => bytes.clone(),
        BodyPiece::File(slice) => match read_slice(slice) {
            // The file may have been written to while it was read.
            Some(bytes) if plain.is_current() => bytes.into(),
            _ => return Encoded::Later,
        },
    };
    compress.encoder.encode(coding, &bytes)
}

/// The form of `plain` with the coded bytes.
pub fn form(
    root: &ServedDirectory,
    plain: &OpenFile,
    coding: FileCoding,
    bytes: Vec<u8>,
) -> Option<Arc<OpenFile>> {
    let length = bytes.len() as u64;
    let contents = if length <= root.options.small_file {
        let bytes = Bytes::from(bytes);
        drop(bytes.clone()); // As in `read_at_most`.
        FileContents::Bytes(bytes)
    } else {
        let mut copy = File::from(memfd_create("larder-file", MemfdFlags::CLOEXEC).ok()?);
        copy.write_all(&bytes).ok()?;
        FileContents::Copy(copy.into())
    };
    Some(Arc::new(OpenFile::made(plain, coding, contents, length)))
}

fn read_slice(slice: &FileSlice) -> Option<Vec<u8>> {
    let file = File::from(slice.owner.fd().try_clone_to_owned().ok()?);
    let mut bytes = vec![0; usize::try_from(slice.length).ok()?];
    file.read_exact_at(&mut bytes, slice.offset).ok()?;
    Some(bytes)
}

/// The siblings that may replace a file: regular, and not older than it.
fn siblings(root: &DirectoryView<'_>, file: &[u8], original: &Identity) -> Vec<(FileCoding, Identity)> {
    let state = |coding| match resolve::look(root.fd(), &with_suffix(file, coding), root.options.rules()) {
        Ok(FileNode::File(it)) if it.modified >= original.modified && it.size > 0 => Some((coding, it)),
        _ => None,
    };
    FileCoding::ALL.into_iter().filter_map(state).collect()
}

fn with_suffix(file: &[u8], coding: FileCoding) -> Vec<u8> {
    [file, coding.suffix().as_bytes()].concat()
}

/// The path of a name in a directory, both beneath the root.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, name].join(&b'/') }
}

fn open(
    root: &DirectoryView<'_>,
    path: &[u8],
    head_fields: &FileHeadFields<'_>,
) -> Result<Arc<OpenFile>, NotServed> {
    let (fd, identity) = resolve::open_file(root.fd(), path, root.options.rules())?;
    let (contents, identity) = read_whole(File::from(fd), identity, &root.options)?;
    Ok(Arc::new(OpenFile::new(contents, identity, head_fields, clock::wall(), &root.counters)))
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
            let sums = FileChecksums::of(file.as_fd(), &identity, clock::wall());
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
