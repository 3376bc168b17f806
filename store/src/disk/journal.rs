//! The journal of purges: a purge is written and synced to the device before it is reported as done. Without an intact
//! journal everything older must be validated. `purges` applies purges.

use super::segment::DiskUsage;
use crate::device::syscalls::{FailedCall, Syscall, Syscalls};
use crate::purges::{Position, PurgeRule, PurgeScope, Seq, Strength};
use larder_semantics::expression::Expression;
use larder_wire::segment::{ReadRule, RecordPart, RuleEntry, START, SegmentFile, VERSION, is_start, start};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

const NAME: &str = "purges";
const NEW_NAME: &str = "purges.new";

/// The largest size of a journal; beyond, old purges are replaced by one that has everything older validated.
const MOST_BYTES: u64 = 8 << 20;

/// The largest journal that is read.
const MOST_READ: u64 = 4 * MOST_BYTES;

/// The journal of one directory.
pub(crate) struct Journal {
    calls: Syscalls,
    usage: Arc<DiskUsage>,
    seed: u64,
    file: Option<OwnedFd>,
    end: u64,
    charged: u64,
    /// The last number, which is not used again.
    last: Seq,
    /// Purges up to this one were dropped: responses requested before are not written any more.
    floor: Seq,
    rules: Vec<(Seq, PurgeRule)>,
}

impl Journal {
    /// An empty journal without a file.
    pub fn new(calls: &Syscalls, space: &Arc<DiskUsage>, seed: u64) -> Journal {
        Journal {
            calls: calls.clone(),
            usage: space.clone(),
            seed,
            file: None,
            end: 0,
            charged: 0,
            last: 0,
            floor: 0,
            rules: Vec::new(),
        }
    }

    /// Reads the file and returns whether it is complete. [`Journal::require_revalidation_of_all`] makes up for missing or damaged parts, once
    /// the numbers of the lost purges are known.
    pub fn load(
        calls: &Syscalls,
        space: &Arc<DiskUsage>,
        directory: &OwnedFd,
        seed: u64,
        is_new: bool,
    ) -> (Journal, bool) {
        let mut journal = Journal::new(calls, space, seed);
        let is_whole = journal.read(directory).unwrap_or(Completeness::No) != Completeness::No || is_new;
        (journal, is_whole)
    }

    /// Purges may be lost: everything requested until now must be validated. The journal must then be rewritten. The new
    /// purge's number is above all that were ever used, if [`Journal::note_purge_seen`] got them: a lower one would miss
    /// responses requested since.
    pub fn require_revalidation_of_all(&mut self) {
        self.last += 1;
        let rule = PurgeRule { scope: PurgeScope::All, strength: Strength::Validate, positions: Vec::new() };
        self.rules.push((self.last, rule));
        self.file = None;
    }

    /// A record was found that knows of this purge. Returns whether the journal knows it; otherwise it has lost it. The
    /// number is not used again.
    pub fn note_purge_seen(&mut self, purge: Seq) -> bool {
        let is_known = purge <= self.last;
        self.last = self.last.max(purge);
        is_known
    }

    /// Marks the start of this process: none of its responses is requested before a dropped purge.
    pub fn begin(&mut self) {
        self.floor = 0;
    }

    /// Whether a dropped purge may have applied to a response of this epoch.
    pub fn may_have_dropped(&self, epoch: Seq) -> bool {
        epoch < self.floor
    }

    /// The last number.
    pub fn last(&self) -> Seq {
        self.last
    }

    /// All purges in force.
    pub fn rules(&self) -> &[(Seq, PurgeRule)] {
        &self.rules
    }

    /// Writes and syncs a purge. `oldest` is the epoch of the oldest record.
    pub fn add(
        &mut self,
        directory: &OwnedFd,
        seq: Seq,
        rule: PurgeRule,
        oldest: Seq,
    ) -> Result<(), FailedCall> {
        let mut bytes = Vec::new();
        let fits = to_entry(seq, &rule).write(self.place(self.end), &mut bytes);
        self.last = self.last.max(seq);
        self.rules.push((seq, rule));
        if !fits {
            self.rules.pop();
            self.require_revalidation_of_all();
        }
        if !fits || self.file.is_none() || self.end + bytes.len() as u64 > MOST_BYTES {
            return self.rewrite(directory, oldest);
        }
        let Some(file) = &self.file else { return Ok(()) };
        self.calls.write(file, &[&bytes], self.end)?;
        self.calls.sync(file)?;
        // A file without a name would be lost at the end of the process.
        if self.calls.stat(file.as_fd())?.links == 0 {
            return Err(FailedCall { call: Syscall::Sync, errno: Errno::NOENT });
        }
        self.end += bytes.len() as u64;
        self.charge(self.end);
        Ok(())
    }

    /// Rewrites the journal without the purges that all kept records were requested after.
    pub fn rewrite(&mut self, directory: &OwnedFd, oldest: Seq) -> Result<(), FailedCall> {
        let gone = self.rules.iter().map(|it| it.0).filter(|it| *it <= oldest).max();
        self.floor = self.floor.max(gone.unwrap_or(0));
        self.rules.retain(|it| it.0 > oldest);
        let mut bytes = self.image();
        while bytes.len() as u64 > MOST_BYTES / 2 && self.rules.len() > 1 {
            self.compact();
            bytes = self.image();
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let file = self.calls.open(directory, NEW_NAME, flags)?;
        self.calls.write(&file, &[&bytes], 0)?;
        self.calls.sync(&file)?;
        self.calls.rename(directory, NEW_NAME, NAME)?;
        self.calls.sync_directory(directory)?;
        self.end = bytes.len() as u64;
        self.charge(self.end);
        self.file = Some(file);
        Ok(())
    }

    /// A removal could not be recorded: without a journal the next process has everything validated. Best effort: a
    /// device that fails every write cannot be changed.
    pub fn delete_file(&mut self, directory: &OwnedFd) {
        self.file = None;
        let _ = self.calls.unlink(directory, NAME);
        let _ = self.calls.sync_directory(directory);
    }

    /// Lets go of the file: another process has it.
    pub fn close(&mut self) {
        self.file = None;
        self.charge(0);
    }

    /// Whether it is on the disk.
    pub fn is_written(&self) -> bool {
        self.file.is_some()
    }

    /// Replaces the older half by one rule.
    fn compact(&mut self) {
        let half = self.rules.len().div_ceil(2);
        let highest = self.rules[..half].iter().map(|it| it.0).max().unwrap_or(0);
        let rule = PurgeRule { scope: PurgeScope::All, strength: Strength::Validate, positions: Vec::new() };
        self.rules.splice(..half, [(highest, rule)]);
    }

    /// All of it as bytes.
    fn image(&self) -> Vec<u8> {
        let mut bytes = start(SegmentFile::Journal, VERSION, self.place(0)).to_vec();
        let last =
            RuleEntry { seq: self.last, scope: 0, strength: 0, text: Vec::new(), positions: Vec::new() };
        for entry in std::iter::once(last).chain(self.rules.iter().map(|it| to_entry(it.0, &it.1))) {
            // Each was small enough when it was added.
            entry.write(self.place(bytes.len() as u64), &mut bytes);
        }
        bytes
    }

    fn read(&mut self, directory: &OwnedFd) -> Result<Completeness, FailedCall> {
        let file = self.calls.open(directory, NAME, OFlags::RDWR)?;
        let length = self.calls.stat(file.as_fd())?.length;
        if length > MOST_READ {
            return Ok(Completeness::No);
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let read = self.calls.read(file.as_fd(), &mut bytes, 0)?;
        bytes.truncate(read);
        if !is_start(SegmentFile::Journal, VERSION, self.place(0), &bytes) {
            return Ok(Completeness::No);
        }
        let mut at = START;
        loop {
            match RuleEntry::read(&bytes[at..], self.place(at as u64)) {
                ReadRule::Entry(entry, length) => {
                    self.last = self.last.max(entry.seq);
                    match from_entry(&entry) {
                        Some(rule) => self.rules.push((entry.seq, rule)),
                        None if entry.scope == 0 => {}
                        None => return Ok(Completeness::No),
                    }
                    at += length;
                }
                ReadRule::End | ReadRule::Cut => break,
                ReadRule::Damaged => return Ok(Completeness::No),
            }
        }
        // The first entry, with the last number, was written with the beginning of the file.
        if at == START {
            return Ok(Completeness::No);
        }
        self.calls.truncate(&file, at as u64)?;
        self.end = at as u64;
        self.charge(self.end);
        self.file = Some(file);
        Ok(Completeness::Yes)
    }

    fn place(&self, offset: u64) -> RecordPart {
        RecordPart { seed: self.seed, file: 0, offset }
    }

    fn charge(&mut self, bytes: u64) {
        self.usage.add(bytes);
        self.usage.take(std::mem::replace(&mut self.charged, bytes));
    }
}

/// Purges as bytes, for another process.
#[must_use]
pub fn rules_to_bytes<'a>(rules: impl IntoIterator<Item = (Seq, &'a PurgeRule)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (seq, rule) in rules {
        let place = RecordPart { seed: 0, file: 0, offset: bytes.len() as u64 };
        // One that no journal would take is above every bound of purges.
        to_entry(seq, rule).write(place, &mut bytes);
    }
    bytes
}

/// The same purges; `None` where a byte is wrong.
#[must_use]
pub fn rules_of_bytes(bytes: &[u8]) -> Option<Vec<(Seq, PurgeRule)>> {
    let (mut rules, mut at) = (Vec::new(), 0);
    loop {
        match RuleEntry::read(&bytes[at..], RecordPart { seed: 0, file: 0, offset: at as u64 }) {
            ReadRule::Entry(entry, length) => {
                rules.push((entry.seq, from_entry(&entry)?));
                at += length;
            }
            ReadRule::End => return Some(rules),
            ReadRule::Cut | ReadRule::Damaged => return None,
        }
    }
}

/// Whether a journal is complete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Completeness {
    Yes,
    No,
}

fn to_entry(seq: Seq, rule: &PurgeRule) -> RuleEntry {
    let (scope, text): (u8, &[u8]) = match &rule.scope {
        PurgeScope::Url(key) => (1, key),
        PurgeScope::Prefix(prefix) => (2, prefix),
        PurgeScope::Tag(tag) => (3, tag.as_bytes()),
        PurgeScope::All => (4, b""),
        PurgeScope::Where(expression) => (5, expression.text().as_bytes()),
    };
    let strength = match rule.strength {
        Strength::Soft => 0,
        Strength::Validate => 1,
        Strength::Hard => 2,
    };
    // One that is not known yet never will be to another process: the rule applies by its time there.
    let known = rule.positions.iter().filter(|it| **it != Position::NOWHERE);
    let positions = known.map(|it| (it.log, it.entry)).collect();
    RuleEntry { seq, scope, strength, text: text.to_vec(), positions }
}

/// `None` for an entry that is no purge.
fn from_entry(entry: &RuleEntry) -> Option<PurgeRule> {
    let text = || std::str::from_utf8(&entry.text).ok();
    let scope = match entry.scope {
        1 => PurgeScope::Url(entry.text[..].into()),
        2 => PurgeScope::Prefix(entry.text[..].into()),
        3 => PurgeScope::Tag(text()?.into()),
        4 => PurgeScope::All,
        5 => PurgeScope::Where(Expression::parse(text()?).ok()?),
        _ => return None,
    };
    let strength = match entry.strength {
        0 => Strength::Soft,
        1 => Strength::Validate,
        2 => Strength::Hard,
        _ => return None,
    };
    let positions = entry.positions.iter().map(|it| Position { log: it.0, entry: it.1 }).collect();
    Some(PurgeRule { scope, strength, positions })
}
