//! The versions of the stream. They differ in the form of the parts that RAM has beyond an envelope:
//!
//! ```text
//! version 1   hits (4), uses (1), whether there is a plan (1), the plan (14; zeros without one), the text of the head
//! version 2   sections in ascending order of their tags, each at most once: tag (1), length (4), content
//! ```
//!
//! In version 2 a section at its default is absent. One with a tag of 128 and above may be skipped, as in an envelope; any other unknown one
//! leaves its response out. So a part that a reader may ignore needs no further version.

use crate::s3fifo::MOST_USES;
use larder_semantics::transcode::{EncodingPlan, PLAN_BYTES};

/// A version of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamVersion {
    /// Version 1.
    FixedParts,
    /// Version 2.
    #[default]
    Sections,
}

impl StreamVersion {
    /// The versions that are read and written, oldest first: the present one, and the one before it. Each has its predecessor's number plus one.
    pub const ALL: [StreamVersion; 2] = [StreamVersion::FixedParts, StreamVersion::Sections];

    /// Its number.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            StreamVersion::FixedParts => 1,
            StreamVersion::Sections => 2,
        }
    }

    pub(super) fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.number() == number)
    }

    /// The newest for a reader of the versions with these numbers; `None` where it reads none that is written here.
    #[must_use]
    pub fn newest_of(numbers: &[u64]) -> Option<Self> {
        Self::ALL.into_iter().rev().find(|it| numbers.contains(&it.number().into()))
    }
}

/// Bytes of the parts with fixed places in version 1.
const FIXED: usize = 4 + 1 + 1 + PLAN_BYTES;

/// Tags of the sections of version 2, in their order.
mod tag {
    /// Hits and uses; absent without any.
    pub(super) const USE: u8 = 1;
    pub(super) const PLAN: u8 = 2;
    /// The text of a head that is not the one of its fields.
    pub(super) const HEAD: u8 = 3;
    /// Sections from this tag on may be skipped.
    pub(super) const OPTIONAL: u8 = 128;
}

/// The parts of a response in RAM that its envelope lacks.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct RamFields {
    pub(super) hits: u32,
    pub(super) uses: u8,
    pub(super) plan: Option<EncodingPlan>,
    /// The text of its head, where that is not the one of its fields; otherwise empty.
    pub(super) head: Vec<u8>,
}

impl RamFields {
    /// Appends them; returns whether that is possible.
    pub(super) fn write(&self, version: StreamVersion, out: &mut Vec<u8>) -> bool {
        let plan = match self.plan.map(EncodingPlan::to_bytes) {
            None => None,
            Some(Some(bytes)) => Some(bytes),
            Some(None) => return false,
        };
        match version {
            StreamVersion::FixedParts => {
                out.extend_from_slice(&self.hits.to_le_bytes());
                out.extend_from_slice(&[self.uses, u8::from(plan.is_some())]);
                out.extend_from_slice(&plan.unwrap_or_default());
                out.extend_from_slice(&self.head);
            }
            StreamVersion::Sections => {
                if self.hits > 0 || self.uses > 0 {
                    let [a, b, c, d] = self.hits.to_le_bytes();
                    section(tag::USE, &[a, b, c, d, self.uses], out);
                }
                if let Some(plan) = plan {
                    section(tag::PLAN, &plan, out);
                }
                if !self.head.is_empty() {
                    section(tag::HEAD, &self.head, out);
                }
            }
        }
        true
    }

    pub(super) fn read(version: StreamVersion, bytes: &[u8]) -> Option<Self> {
        match version {
            StreamVersion::FixedParts => Self::read_fixed(bytes),
            StreamVersion::Sections => Self::read_sections(bytes),
        }
    }

    fn read_fixed(bytes: &[u8]) -> Option<Self> {
        let (fixed, head) = bytes.split_first_chunk::<FIXED>()?;
        let (used, plan) = fixed.split_first_chunk::<5>()?;
        let plan = match plan.split_first()? {
            (0, _) => None,
            (_, plan) => Some(EncodingPlan::of_bytes(plan.try_into().ok()?)?),
        };
        Some(Self { plan, head: head.to_vec(), ..Self::default() }.used(*used))
    }

    fn read_sections(bytes: &[u8]) -> Option<Self> {
        let (mut found, mut rest, mut last) = (Self::default(), bytes, 0);
        while let Some((&tag, after)) = rest.split_first() {
            let (length, after) = after.split_first_chunk()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let (content, after) = after.split_at_checked(length)?;
            if tag <= last {
                return None;
            }
            (last, rest) = (tag, after);
            match tag {
                tag::USE => found = found.used(content.try_into().ok()?),
                tag::PLAN => found.plan = Some(EncodingPlan::of_bytes(content.try_into().ok()?)?),
                tag::HEAD => found.head = content.to_vec(),
                tag::OPTIONAL.. => {}
                _ => return None,
            }
        }
        Some(found)
    }

    fn used(self, [a, b, c, d, uses]: [u8; 5]) -> Self {
        Self { hits: u32::from_le_bytes([a, b, c, d]), uses: uses.min(MOST_USES), ..self }
    }
}

/// Appends a section. No head is longer than its length can say.
fn section(tag: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(&u32::try_from(content.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> RamFields {
        let plan = EncodingPlan::of_bytes(&[0, 2, 0, 2, 3, 1, 0, 0, 16, 0, 0, 0, 0, 0]).unwrap();
        RamFields { hits: 0x0102, uses: 3, plan: Some(plan), head: b"HTTP/1.1 200 OK\r\n".to_vec() }
    }

    fn written(fields: &RamFields, version: StreamVersion) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(fields.write(version, &mut out));
        out
    }

    /// The bytes themselves: an earlier release writes them, and reads them.
    #[test]
    fn every_version_has_its_bytes() {
        let plan = [0, 2, 0, 2, 3, 1, 0, 0, 16, 0, 0, 0, 0, 0];
        let fixed = [&[2, 1, 0, 0, 3, 1][..], &plan, b"HTTP/1.1 200 OK\r\n"].concat();
        assert_eq!(fixed, written(&fields(), StreamVersion::FixedParts));
        assert_eq!([0; FIXED].to_vec(), written(&RamFields::default(), StreamVersion::FixedParts));
        let used = [1, 5, 0, 0, 0, 2, 1, 0, 0, 3];
        let sections =
            [&used[..], &[2, 14, 0, 0, 0], &plan, &[3, 17, 0, 0, 0], b"HTTP/1.1 200 OK\r\n"].concat();
        assert_eq!(sections, written(&fields(), StreamVersion::Sections));
        assert!(written(&RamFields::default(), StreamVersion::Sections).is_empty());
        for version in StreamVersion::ALL {
            for one in [fields(), RamFields::default()] {
                assert_eq!(Some(&one), RamFields::read(version, &written(&one, version)).as_ref());
            }
        }
    }

    #[test]
    fn sections_of_a_later_version_are_skipped_or_leave_the_response_out() {
        let read = |bytes: &[u8]| RamFields::read(StreamVersion::Sections, bytes);
        let with = |tag: u8| {
            let mut bytes = written(&fields(), StreamVersion::Sections);
            section(tag, b"later", &mut bytes);
            bytes
        };
        assert_eq!(Some(fields()), read(&with(128)));
        assert_eq!(Some(fields()), read(&with(255)));
        for tag in [1, 3, 4, 127] {
            assert_eq!(None, read(&with(tag)), "{tag}");
        }
        let whole = with(200);
        let ends = [0, 10, 29, 51, whole.len()];
        for end in 0..=whole.len() {
            assert_eq!(ends.contains(&end), read(&whole[..end]).is_some(), "{end}");
        }
        let longer = [&[1, 6, 0, 0, 0][..], &[0; 6]].concat();
        assert_eq!(None, read(&longer));
        assert_eq!(Some(MOST_USES), read(&[1, 5, 0, 0, 0, 0, 0, 0, 0, 255]).map(|it| it.uses));
    }

    #[test]
    fn the_newest_version_of_both_is_written() {
        for (numbers, expect) in
            [(&[1][..], Some(1)), (&[1, 2], Some(2)), (&[2, 3], Some(2)), (&[3, 4], None), (&[], None)]
        {
            let version = StreamVersion::newest_of(numbers);
            assert_eq!(expect, version.map(StreamVersion::number), "{numbers:?}");
        }
    }
}
