//! The RAM tier as a stream of records: written at a clean stop, read before clients are served. `file` has its file. The
//! stream is made of the parts of the disk tier's segments (`wire::segment`), with another magic:
//!
//! ```text
//! start       64 bytes, with the version (`version`)
//! facts       40 bytes: time of writing, last purge, settings of keys, zero; their checksum
//! records     header, head (envelope, then the parts that RAM has beyond an envelope), body; hottest entries first
//! end         a header of the kind `Removal`, whose stamp is the number of records, and whose `body` that of responses left out
//! ```
//!
//! In a header `stamp` is the number of responses before it in the stream, `epoch` the last purge that was applied to the
//! response, `hash` the checksum of its key, and `body_sum` that of the whole body. `variant` and `names` are zero. A response that is
//! restored is older than every later purge, and no older one is needed for it. In a file `epoch` is the last purge everywhere.
//!
//! `transfer` sends the same stream to a process that takes over, while this one serves. There a header of the kind `Removal`
//! may have a head, which is a key: the responses sent under it before are dropped. And there a body may be in an arena that the sender
//! has lent: then `variant` is `SHARED`, `body_sum` is its place there, and no bytes follow.

pub mod file;
mod reading;
pub mod transfer;
mod version;

use self::reading::Surplus;
use self::version::RamFields;
pub use self::version::StreamVersion;
use crate::disk::each_piece_of;
use crate::entry::{Entry, Stored, StoredBody};
use crate::key::KeyHash;
use crate::purges::Seq;
use crate::ram::{RulesApplied, Store};
use crate::s3fifo::{Handle, MOST_USES};
use crate::stored_envelope;
use larder_semantics::tiers;
use larder_stdx::clock::{self, WallTime};
use larder_wire::envelope;
use larder_wire::segment::{
    HEADER, MAX_HEAD, RecordHeader, RecordKind, RecordPart, START, SegmentFile, is_start, start, sum, version,
};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::atomic::Ordering::Relaxed;
use xxhash_rust::xxh3::Xxh3;

/// Bytes of the facts behind the start.
const FACTS: usize = 40;

/// In the field `variant` of a header: the body is in the arena that both processes have.
const SHARED: u32 = 1;

/// Entries between two looks at the time.
const BATCH: usize = 256;

/// Entries whose blocks are read from memory together.
const TOGETHER: usize = 16;

/// Bytes that the processor reads from memory at once.
const CACHE_LINE: usize = 64;

/// The number of responses of a snapshot, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCount {
    /// Responses that were written, or are in RAM now.
    pub responses: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Bytes of bodies that both processes of an upgrade share; they are in `bytes`, too.
    pub shared: u64,
    /// Responses that were left out: useless by their age, of a form that is not written, or beyond a bound.
    pub left_out: u64,
    /// The version of the stream.
    pub version: StreamVersion,
}

/// Why nothing of a snapshot is used.
#[derive(Debug)]
pub enum SnapshotFault {
    /// It is none.
    Foreign,
    /// It has another version of the format.
    Version(u32),
    /// It was written later than now: the clock went back, and every age would be too low.
    Future,
    /// It was written under other settings of keys, routes or sites.
    OtherSettings,
    /// The disk tier knows purges that were made since.
    PurgedSince,
    /// A checksum differs, or its end is missing.
    Damaged,
    /// It cannot be read.
    Failed(io::Error),
}

impl SnapshotFault {
    /// The end of a sentence about the snapshot.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            SnapshotFault::Foreign => {
                "it is not a snapshot that larder wrote there; a copy is not used".to_owned()
            }
            SnapshotFault::Version(it) => {
                let [first, last] = StreamVersion::ALL.map(StreamVersion::number);
                format!(
                    "it has version {it} of the format, and this larder reads versions {first} and {last}"
                )
            }
            SnapshotFault::Future => "it was written later than now: the clock went back".to_owned(),
            SnapshotFault::OtherSettings => {
                "it was written with other settings of listeners, sites, routes or cache keys".to_owned()
            }
            SnapshotFault::PurgedSince => "purges were made since it was written".to_owned(),
            SnapshotFault::Damaged => "it is truncated or damaged".to_owned(),
            SnapshotFault::Failed(error) => {
                format!("it cannot be read: {}", larder_stdx::error::plain(error))
            }
        }
    }
}

impl From<io::Error> for SnapshotFault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => SnapshotFault::Damaged,
            _ => SnapshotFault::Failed(error),
        }
    }
}

/// The facts about a snapshot as a whole.
struct SnapshotFacts {
    written: WallTime,
    last: Seq,
    settings: u64,
}

impl SnapshotFacts {
    fn write(&self, seed: u64) -> [u8; FACTS] {
        let mut out = [0; FACTS];
        for (to, number) in out.chunks_exact_mut(8).zip([self.written.0, self.last, self.settings]) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        let checksum = sum(seed, &out[..FACTS - 8]);
        out[FACTS - 8..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    fn read(seed: u64, bytes: &[u8; FACTS]) -> Option<Self> {
        let number = |at: usize| bytes[8 * at..8 * at + 8].try_into().map_or(0, u64::from_le_bytes);
        let is_whole = sum(seed, &bytes[..FACTS - 8]) == number(4);
        is_whole.then(|| Self { written: WallTime(number(0)), last: number(1), settings: number(2) })
    }
}

/// Visits the bytes of a body, piece by piece.
fn each_piece(body: &StoredBody, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    match body {
        StoredBody::Heap(bytes) => take(bytes),
        StoredBody::Arena(slice) | StoredBody::Disk(slice) => each_piece_of(slice, |_, bytes| take(bytes)),
    }
}

/// Bytes of the body in the stream.
fn bytes_that_follow(header: &RecordHeader) -> u64 {
    header.body - shared_bytes(header)
}

/// Bytes of the body that are in the stream by their place alone.
fn shared_bytes(header: &RecordHeader) -> u64 {
    if header.variant == SHARED { header.body } else { 0 }
}

struct SnapshotWriter<W> {
    out: W,
    seed: u64,
    version: StreamVersion,
    at: u64,
    count: SnapshotCount,
    scratch: Vec<u8>,
    /// The descriptor of the arena that the reader has, too.
    lent: Option<RawFd>,
}

/// The use of a key, for the order of a stream.
#[derive(Clone, Copy)]
struct EntryUse {
    uses: u8,
    hits: u32,
}

impl<W: Write> SnapshotWriter<W> {
    fn new(out: W, seed: u64, version: StreamVersion) -> Self {
        let count = SnapshotCount { version, ..SnapshotCount::default() };
        Self { out, seed, version, at: 0, count, scratch: Vec::new(), lent: None }
    }

    fn place(&self) -> RecordPart {
        RecordPart { seed: self.seed, file: 0, offset: self.at }
    }

    fn begin(&mut self, facts: &SnapshotFacts) -> io::Result<()> {
        self.out.write_all(&start(SegmentFile::Snapshot, self.version.number(), self.place()))?;
        self.out.write_all(&facts.write(self.seed))?;
        self.at = (START + FACTS) as u64;
        Ok(())
    }

    /// The header of a record under this key; that of the end has none.
    fn header(&self, kind: RecordKind, key: &[u8], applied: Seq) -> RecordHeader {
        let (stamp, hash) = (self.count.responses, sum(self.seed, key));
        RecordHeader { kind, stamp, hash, ..RecordHeader::purge_note(applied) }
    }

    /// A response to which the purges up to `met` were applied.
    fn record(
        &mut self,
        key: &[u8],
        stored: &Stored,
        EntryUse { uses, hits }: EntryUse,
        applied: Seq,
    ) -> io::Result<()> {
        self.scratch.clear();
        stored_envelope::write(key, stored, &mut self.scratch);
        let is_small = self.scratch.len() <= envelope::MAX_HEAD;
        let head = if stored.has_own_head() { stored.head.text() } else { Vec::new() };
        let plan = stored.encodings.as_ref().map(|it| it.plan);
        let is_written = RamFields { hits, uses, plan, head }.write(self.version, &mut self.scratch);
        let length = u32::try_from(self.scratch.len()).ok().filter(|it| *it <= MAX_HEAD);
        let Some(length) = length.filter(|_| is_small && is_written) else {
            self.count.left_out += 1;
            return Ok(());
        };
        let place = self.shared_place(&stored.body);
        let (variant, body_sum) = match place {
            Some(place) => (SHARED, place),
            None => (0, self.sum_of(&stored.body)?),
        };
        let header = RecordHeader {
            head: length,
            body: stored.body.len(),
            head_sum: sum(self.seed, &self.scratch),
            variant,
            body_sum,
            ..self.header(RecordKind::Response, key, applied)
        };
        self.out.write_all(&header.write(self.place()))?;
        self.out.write_all(&self.scratch)?;
        if place.is_none() {
            each_piece(&stored.body, |bytes| self.out.write_all(bytes))?;
        }
        self.at += (HEADER as u64) + u64::from(length) + bytes_that_follow(&header);
        self.count.responses += 1;
        self.count.bytes += header.length();
        self.count.shared += shared_bytes(&header);
        Ok(())
    }

    /// The place of a body in the lent arena, if it is there.
    fn shared_place(&self, body: &StoredBody) -> Option<u64> {
        match body {
            StoredBody::Arena(slice) if self.lent == Some(slice.owner.fd().as_raw_fd()) => Some(slice.offset),
            _ => None,
        }
    }

    fn sum_of(&self, body: &StoredBody) -> io::Result<u64> {
        let mut summing = Xxh3::with_seed(self.seed);
        each_piece(body, |bytes| {
            summing.update(bytes);
            Ok(())
        })?;
        Ok(summing.digest())
    }

    /// The responses sent under a key are dropped.
    fn removal(&mut self, key: &[u8]) -> io::Result<()> {
        let length = u32::try_from(key.len()).ok().filter(|it| *it <= MAX_HEAD && *it > 0);
        let head = length.ok_or(io::ErrorKind::InvalidData)?;
        let header =
            RecordHeader { head, head_sum: sum(self.seed, key), ..self.header(RecordKind::Removal, key, 0) };
        self.out.write_all(&header.write(self.place()))?;
        self.out.write_all(key)?;
        self.at += header.length();
        Ok(())
    }

    fn end(&mut self) -> io::Result<SnapshotCount> {
        let end = RecordHeader { body: self.count.left_out, ..self.header(RecordKind::Removal, b"", 0) };
        let header = end.write(self.place());
        self.out.write_all(&header)?;
        self.out.flush()?;
        Ok(self.count)
    }
}

/// Reads the blocks of these entries. No read waits for another one, but for the address of its block.
fn read_blocks(entries: &[Entry]) {
    let stored = || entries.iter().flat_map(|it| it.variants.iter());
    let mut read = stored().fold(0, |all, it| all ^ it.meta.status ^ it.epoch as u16);
    for it in stored() {
        read ^= u16::from(it.head.first_own_byte());
        if let StoredBody::Heap(bytes) = &it.body {
            read = bytes.iter().step_by(CACHE_LINE).fold(read, |all, it| all ^ u16::from(*it));
        }
    }
    // Their value is of no use.
    black_box(read);
}

/// Whether a response is written, and used when it is read again, at this time.
fn is_usable(stored: &Stored, now: WallTime) -> bool {
    stored.meta.response_time <= now && tiers::is_worth_keeping(&stored.meta, now)
}

impl Store {
    /// Writes the entries of RAM, the most used ones first, until `late` returns true. Purges must not be made meanwhile.
    /// `seed` belongs to the place of the stream, `settings` to the configuration: the same are needed for reading it. Not
    /// written are parts, private markers, bodies in the disk tier, and responses that are of no use any more.
    ///
    /// # Errors
    /// The error of `out`: the bytes so far are no snapshot.
    pub fn write_snapshot(
        &self,
        out: impl Write,
        seed: u64,
        settings: u64,
        late: impl Fn() -> bool,
    ) -> io::Result<SnapshotCount> {
        let (now, last) = (clock::wall(), self.purges.seq());
        let mut writer = SnapshotWriter::new(out, seed, StreamVersion::default());
        writer.begin(&SnapshotFacts { written: now, last, settings })?;
        self.write_all(&mut writer, now, late)?;
        writer.end()
    }

    /// Writes every entry, the most used ones first. The order is that of the beginning, and for entries of one use that of the eviction
    /// policy, which is nearly that of their arrival and of their memory. (By shards instead, so that a table is read from memory
    /// once, a response cost the sender 2.4 µs of CPU instead of 1.8.)
    ///
    /// Entries are looked up some at a time, and then their blocks are read: the processor fetches those from memory together.
    fn write_all(
        &self,
        writer: &mut SnapshotWriter<impl Write>,
        now: WallTime,
        late: impl Fn() -> bool,
    ) -> io::Result<()> {
        let (mut is_late, mut some) = (false, Vec::with_capacity(TOGETHER));
        for (uses, these) in (0..=MOST_USES).zip(self.by_use()).rev() {
            for (at, these) in these.chunks(TOGETHER).enumerate() {
                is_late |= at % (BATCH / TOGETHER) == 0 && late();
                some.extend(these.iter().filter_map(|it| self.entry_at(it.1)));
                read_blocks(&some);
                for entry in some.drain(..) {
                    self.write_entry(writer, entry, uses, now, is_late)?;
                }
            }
        }
        Ok(())
    }

    /// The present entries, by their use; those of one use in the order of the policy.
    fn by_use(&self) -> [Vec<(Handle, KeyHash)>; MOST_USES as usize + 1] {
        let mut by_use: [Vec<(Handle, KeyHash)>; MOST_USES as usize + 1] = Default::default();
        for shard in &self.shards {
            for (hash, entry) in &shard.read().slots {
                let uses = entry.uses.load(Relaxed).min(MOST_USES);
                by_use[usize::from(uses)].push((entry.handle(), hash.whole()));
            }
        }
        by_use.iter_mut().for_each(|it| it.sort_unstable_by_key(|it| it.0.0));
        by_use
    }

    /// Writes the responses of an entry.
    fn write_entry(
        &self,
        writer: &mut SnapshotWriter<impl Write>,
        entry: Entry,
        uses: u8,
        now: WallTime,
        is_late: bool,
    ) -> io::Result<()> {
        let (left, applied) = match self.purges.apply(&entry, None) {
            RulesApplied::AsItIs(seq) => (entry, seq),
            RulesApplied::Changed(left) => {
                let applied = left.applied();
                (left, applied)
            }
            RulesApplied::Gone => return Ok(()),
        };
        let used = EntryUse { uses, hits: left.hits() };
        // The newest last: it is then the newest again.
        for stored in left.variants.iter().rev() {
            let is_elsewhere = matches!(stored.body, StoredBody::Disk(_));
            if is_late || is_elsewhere || stored.is_superseded() || !is_usable(stored, now) {
                writer.count.left_out += 1;
            } else {
                writer.record(left.key(), stored, used, applied)?;
            }
        }
        Ok(())
    }

    /// Reads a snapshot into RAM, before anything else is there, until RAM is full or `late` returns true. Either all that
    /// was read is in RAM, or nothing. The purges of the disk tier must be in force already.
    ///
    /// # Errors
    /// Nothing of it is used.
    pub fn read_snapshot(
        &self,
        from: impl Read,
        seed: u64,
        settings: u64,
        late: impl Fn() -> bool,
    ) -> Result<SnapshotCount, SnapshotFault> {
        let mut reader = SnapshotReader::new(from, seed);
        let facts = reader.facts(settings, clock::wall())?;
        // The disk tier has begun a new number.
        if self.purge_number() > facts.last + 1 {
            return Err(SnapshotFault::PurgedSince);
        }
        self.restore(facts.last, Vec::new());
        self.read_all(reader, Surplus::Unread, None, late)
    }
}

struct SnapshotReader<R> {
    from: R,
    seed: u64,
    /// Known from the beginning on.
    version: StreamVersion,
    at: u64,
    /// The number of the next record.
    next: u64,
    /// The head of the last record.
    scratch: Vec<u8>,
    /// Responses that the writer left out; known at the end.
    left_out: u64,
}

impl<R: Read> SnapshotReader<R> {
    fn new(from: R, seed: u64) -> Self {
        Self {
            from,
            seed,
            version: StreamVersion::default(),
            at: 0,
            next: 0,
            scratch: Vec::new(),
            left_out: 0,
        }
    }

    /// The facts of a snapshot that may be used under these settings, at this time.
    fn facts(&mut self, settings: u64, now: WallTime) -> Result<SnapshotFacts, SnapshotFault> {
        let facts = self.begin()?;
        if facts.written > now {
            return Err(SnapshotFault::Future);
        }
        if facts.settings != settings {
            return Err(SnapshotFault::OtherSettings);
        }
        Ok(facts)
    }

    fn place(&self) -> RecordPart {
        RecordPart { seed: self.seed, file: 0, offset: self.at }
    }

    fn begin(&mut self) -> Result<SnapshotFacts, SnapshotFault> {
        let (mut first, mut facts) = ([0; START], [0; FACTS]);
        self.from.read_exact(&mut first)?;
        let number = version(SegmentFile::Snapshot, &first).ok_or(SnapshotFault::Foreign)?;
        self.version = StreamVersion::of(number).ok_or(SnapshotFault::Version(number))?;
        if !is_start(SegmentFile::Snapshot, number, self.place(), &first) {
            return Err(SnapshotFault::Foreign);
        }
        self.from.read_exact(&mut facts)?;
        self.at = (START + FACTS) as u64;
        SnapshotFacts::read(self.seed, &facts).ok_or(SnapshotFault::Damaged)
    }

    /// The header of the next response or removal, with its head in `scratch`; `None` at the end.
    fn header(&mut self) -> Result<Option<RecordHeader>, SnapshotFault> {
        let mut bytes = [0; HEADER];
        self.from.read_exact(&mut bytes)?;
        let header = RecordHeader::read(&bytes, self.place()).filter(|it| it.stamp == self.next);
        let header = header.ok_or(SnapshotFault::Damaged)?;
        if header.kind == RecordKind::Removal && header.head == 0 {
            self.left_out = header.body;
            // Nothing follows.
            return if self.from.read(&mut [0])? == 0 { Ok(None) } else { Err(SnapshotFault::Damaged) };
        }
        self.scratch.clear();
        let length = u64::from(header.head);
        if self.from.by_ref().take(length).read_to_end(&mut self.scratch)? as u64 != length
            || sum(self.seed, &self.scratch) != header.head_sum
        {
            return Err(SnapshotFault::Damaged);
        }
        self.at += HEADER as u64 + length;
        self.next += u64::from(header.kind == RecordKind::Response);
        Ok(Some(header))
    }

    /// Appends the bytes of a small body.
    fn body(&mut self, length: u64, out: &mut Vec<u8>) -> Result<(), SnapshotFault> {
        let from = out.len();
        out.resize(from + usize::try_from(length).map_err(|_| SnapshotFault::Damaged)?, 0);
        self.from.read_exact(&mut out[from..])?;
        self.at += length;
        Ok(())
    }

    fn skip(&mut self, length: u64) -> Result<(), SnapshotFault> {
        let skipped = io::copy(&mut self.from.by_ref().take(length), &mut io::sink())?;
        self.at += length;
        if skipped == length { Ok(()) } else { Err(SnapshotFault::Damaged) }
    }
}

#[cfg(test)]
mod tests;
