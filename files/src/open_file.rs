//! A file that is ready to be sent: head, facts, and body or descriptor. Immutable; a changed file becomes another one.
//! The lookup is not here.

use crate::file_checksums::{Appended, FileChecksums};
use crate::negotiate::FileCoding;
use crate::resolve::Identity;
use larder_counters::Counters;
use larder_semantics::date;
use larder_semantics::field::FieldList;
use larder_semantics::freshness::{Lifetime, LifetimeSource};
use larder_semantics::stored::{Meta, Uncommon};
use larder_semantics::transcode;
use larder_stdx::clock::WallTime;
use larder_stdx::descriptors::HeldDescriptor;
use larder_transport::body::{BodyPiece, FileOwner, FileSlice, FileWritableBy};
use larder_wire::ready_head::ReadyHead;
use parking_lot::Mutex;
use rustix::fs::fstat;
use rustix::io::{Errno, pread};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// A file, or a precompressed sibling instead, ready to be sent as 200.
pub struct OpenFile {
    /// Status line and fields, ready for either protocol, without `Date`.
    pub head: ReadyHead,
    /// The same fields.
    pub fields: FieldList,
    /// The facts for preconditions.
    pub meta: Meta,
    /// The whole body: bytes up to `Options::small_file`, otherwise a slice of a copy (up to `Options::copied_file`) or
    /// of the file itself.
    pub body: BodyPiece,
    /// The state of the file from which all of the above was read.
    pub(crate) identity: Identity,
    /// Present if the body is the file itself.
    descriptor: Option<Arc<Descriptor>>,
}

/// The fields of a head that do not follow from the file itself.
pub(crate) struct FileHeadFields<'a> {
    /// `Content-Type`.
    pub media_type: &'a str,
    /// `Content-Encoding`, for a sibling.
    pub coding: Option<&'static str>,
    /// The file has or may get coded forms: the choice depends on `Accept-Encoding`.
    pub varies: bool,
    /// `Cache-Control`, if configured.
    pub cache_control: Option<&'a str>,
}

/// The place of a file's bytes.
pub(crate) enum FileContents {
    /// Read completely.
    Bytes(bytes::Bytes),
    /// Copied completely into a `memfd` that no other process can write to.
    Copy(OwnedFd),
    /// The file itself, and the sums of its bytes.
    Descriptor(OwnedFd, FileChecksums),
}

impl OpenFile {
    /// Prepares all data for a hit; `now` is the time of the check.
    pub(crate) fn new(
        contents: FileContents,
        identity: Identity,
        head_fields: &FileHeadFields<'_>,
        now: WallTime,
        counters: &Arc<Counters>,
    ) -> OpenFile {
        let etag = strong_tag(&identity, &contents, head_fields.coding);
        // An origin must not claim a modification in the future (RFC 9110 §8.8.2.1).
        let modified = u64::try_from(identity.modified.0).ok().map(WallTime).filter(|it| *it <= now);
        let mut fields = FieldList::new();
        fields.push("Content-Type", head_fields.media_type);
        fields.push("Content-Length", identity.size.to_string());
        if let Some(coding) = head_fields.coding {
            fields.push("Content-Encoding", coding);
        }
        if head_fields.varies {
            fields.push("Vary", "Accept-Encoding");
        }
        if let Some(modified) = modified {
            fields.push("Last-Modified", date::format(modified));
        }
        fields.push("ETag", &etag);
        fields.push("Accept-Ranges", "bytes");
        if let Some(value) = head_fields.cache_control {
            fields.push("Cache-Control", value);
        }
        fields.shrink();
        let (body, descriptor) = match contents {
            FileContents::Bytes(bytes) => (BodyPiece::Bytes(bytes), None),
            FileContents::Copy(fd) => {
                (whole(Arc::new(Copy { fd, _held: HeldDescriptor::for_clients() }), &identity), None)
            }
            FileContents::Descriptor(fd, sums) => {
                let grown = Mutex::new((identity, Appended::All));
                let (counters, _held) = (counters.clone(), HeldDescriptor::for_clients());
                let owner = Arc::new(Descriptor { fd, identity, sums, grown, counters, _held });
                (whole(owner.clone(), &identity), Some(owner))
            }
        };
        let meta = facts(etag.into_bytes().into(), modified, head_fields.varies, now);
        let head = ReadyHead::new(&[b"HTTP/1.1 200 OK\r\n", fields.text()].concat());
        OpenFile { head, fields, meta, body, identity, descriptor }
    }

    /// The form of `plain` in a coding, from bytes that were made of it. Its tag is weak, as another version of the
    /// encoder may make other bytes (RFC 9110 §8.8.1), and is its own (§8.8.3.3); ranges are not offered.
    pub(crate) fn made(
        plain: &OpenFile,
        coding: FileCoding,
        contents: FileContents,
        length: u64,
    ) -> OpenFile {
        let mut fields = transcode::form_fields(&plain.fields, coding.in_general());
        let tag = String::from_utf8_lossy(plain.fields.get("etag").unwrap_or_default()).into_owned();
        let etag = format!("W/\"{}-{}\"", tag.trim_matches('"'), coding.token());
        fields.set("ETag", &etag);
        fields.push("Content-Length", length.to_string());
        fields.shrink();
        let identity = Identity { size: length, ..plain.identity };
        let body = match contents {
            FileContents::Bytes(bytes) => BodyPiece::Bytes(bytes),
            FileContents::Copy(fd) | FileContents::Descriptor(fd, _) => {
                whole(Arc::new(Copy { fd, _held: HeldDescriptor::for_clients() }), &identity)
            }
        };
        let mut meta = plain.meta.clone();
        meta.etag = Some(etag.into_bytes().into_boxed_slice().into());
        let head = ReadyHead::new(&[b"HTTP/1.1 200 OK\r\n", fields.text()].concat());
        OpenFile { head, fields, meta, body, identity, descriptor: None }
    }

    /// A response in the form of a file that is not one. `status_line` ends with its CRLF; `fields` are its fields,
    /// including `Content-Length`, `ETag` and `Last-Modified`, with the same values as `meta`.
    #[must_use]
    pub fn held(status_line: &[u8], mut fields: FieldList, meta: Meta, body: BodyPiece) -> OpenFile {
        fields.shrink();
        let identity = Identity { place: (0, 0), size: body.len(), modified: (0, 0), changed: (0, 0) };
        let head = ReadyHead::new(&[status_line, fields.text()].concat());
        OpenFile { head, fields, meta, body, identity, descriptor: None }
    }

    /// Whether the choice among its forms depends on `Accept-Encoding`.
    pub(crate) fn varies(&self) -> bool {
        self.fields.get("vary").is_some()
    }

    /// Bytes of the whole body.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.body.len()
    }

    /// Its bytes of memory, for the bound of a cache.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let body = if self.descriptor.is_some() { 0 } else { self.body.len() };
        body + (size_of::<OpenFile>() + self.head.size() + self.fields.heap_size()) as u64
    }

    /// Whether a response is being sent from its descriptor; `None` without one.
    #[must_use]
    pub(crate) fn in_use(&self) -> Option<bool> {
        let BodyPiece::File(slice) = &self.body else { return None };
        let own = if self.descriptor.is_some() { 2 } else { 1 };
        Some(Arc::strong_count(&slice.owner) > own)
    }

    /// Bytes of these in a copy, in whole pages: the kernel counts those for no process.
    #[must_use]
    pub fn copied(&self) -> u64 {
        match &self.body {
            BodyPiece::File(_) if self.descriptor.is_none() => self.body.len().next_multiple_of(4096),
            _ => 0,
        }
    }

    /// Whether the promised bytes can still be sent from the beginning. A body in memory always can; for the file itself one
    /// `fstat` shows whether it was changed by more than an append.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.descriptor.as_ref().is_none_or(|it| it.is_intact())
    }

    /// Whether the head still describes the file, which an append makes longer. A body in memory is checked only from
    /// time to time.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.descriptor.as_ref().is_none_or(|it| it.state().is_some_and(|now| now.same_bytes(&it.identity)))
    }
}

fn whole(owner: Arc<dyn FileOwner>, identity: &Identity) -> BodyPiece {
    BodyPiece::File(FileSlice { owner, offset: 0, length: identity.size })
}

/// A strong tag (RFC 9110 §8.8.1) that is the same on every node with the same bytes: their hash, whatever inode and dates a
/// deployment gives the file. Of a file too large for memory its size and the full resolution of its modification time.
fn strong_tag(identity: &Identity, contents: &FileContents, coding: Option<&str>) -> String {
    let hash = match contents {
        FileContents::Bytes(bytes) => Some(xxh3_128(bytes)),
        FileContents::Copy(fd) => hash(fd.as_fd(), identity.size).ok(),
        FileContents::Descriptor(..) => None,
    };
    let suffix = coding.map_or(String::new(), |it| format!("-{it}"));
    match hash {
        Some(hash) => format!("\"{hash:032x}{suffix}\""),
        None => {
            let (seconds, nanos) = identity.modified;
            format!("\"{seconds:x}.{nanos:x}-{:x}{suffix}\"", identity.size)
        }
    }
}

/// The hash of the first `size` bytes of a file.
fn hash(fd: BorrowedFd<'_>, size: u64) -> Result<u128, Errno> {
    let (mut hash, mut at, mut room) = (Xxh3::new(), 0, vec![0; 64 << 10]);
    while at < size {
        match pread(fd, &mut room, at)? {
            0 => break,
            count => {
                hash.update(&room[..count]);
                at += count as u64;
            }
        }
    }
    Ok(hash.digest128())
}

fn facts(etag: Box<[u8]>, modified: Option<WallTime>, varies: bool, now: WallTime) -> Meta {
    Meta {
        status: 200,
        request_time: now,
        response_time: now,
        date: now,
        initial_age: 0,
        lifetime: Lifetime { seconds: 0, source: LifetimeSource::None },
        must_revalidate: false,
        no_cache: false,
        implicit: false,
        stale_while_revalidate: 0,
        stale_if_error: 0,
        etag: Some(etag.into()),
        last_modified: modified.into(),
        uncommon: Uncommon::new(if varies { vec!["accept-encoding".into()] } else { Vec::new() }, None),
    }
}

/// A copy in memory: the kernel sends it like a file, and edits do not affect it.
struct Copy {
    fd: OwnedFd,
    _held: HeldDescriptor,
}

impl FileOwner for Copy {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn mapped(&self, _offset: u64, _length: u64) -> Option<&[u8]> {
        None
    }
}

/// The descriptor of a file too large to copy, and the state it had when it was opened.
struct Descriptor {
    fd: OwnedFd,
    identity: Identity,
    sums: FileChecksums,
    /// The last state in which it had grown, and the bytes that were unchanged then.
    grown: Mutex<(Identity, Appended)>,
    counters: Arc<Counters>,
    _held: HeldDescriptor,
}

impl Descriptor {
    fn state(&self) -> Option<Identity> {
        fstat(&self.fd).ok().map(|it| Identity::of(&it))
    }

    /// The promised bytes that are unchanged in the state `now`, if the file was appended to.
    fn after_append(&self, now: &Identity) -> Appended {
        if now.same_bytes(&self.identity) {
            return Appended::All;
        }
        if !now.has_grown(&self.identity) {
            return Appended::Nothing;
        }
        let mut grown = self.grown.lock();
        if !grown.0.same_bytes(now) {
            *grown = (*now, self.sums.after_append(self.fd.as_fd(), self.identity.size));
        }
        grown.1
    }
}

impl FileOwner for Descriptor {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Always `None`: truncating a mapped file would kill the process (`SIGBUS`).
    fn mapped(&self, _offset: u64, _length: u64) -> Option<&[u8]> {
        None
    }

    fn kept(&self) -> FileWritableBy {
        FileWritableBy::Theirs
    }

    /// A log grows while it is sent: the promised length of it is sent.
    fn is_intact(&self) -> bool {
        self.state().is_some_and(|now| self.after_append(&now) == Appended::All)
    }

    /// A recording may also rewrite its header meanwhile, and the modification time of a file may change alone.
    fn holds(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some(now) = self.state() else { return false };
        offset >= FileChecksums::offset_of(self.after_append(&now))
            || self.sums.has_blocks() && self.sums.hold(self.fd.as_fd(), offset, bytes, self.identity.size)
    }

    fn failed(&self) {
        self.counters.files_changed.add_shared(1);
    }
}
