//! Bodies of requests that are complete before the origin is asked. Reading them is in `request`, sending them in `upload`.

use bytes::Bytes;
use larder_store::SpooledBody;
use larder_wire::message::Framing;

/// Which bodies of requests are read before the origin is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BufferedBodies {
    /// None.
    #[default]
    None,
    /// Those of unknown length: the protocol of the origin announces the length.
    Unsized,
    /// All.
    All,
}

impl BufferedBodies {
    /// Whether a body with this framing is one of them.
    pub(crate) fn has(self, framing: Framing) -> bool {
        match self {
            BufferedBodies::None => false,
            BufferedBodies::Unsized => matches!(framing, Framing::Chunked | Framing::Close),
            BufferedBodies::All => framing != Framing::Empty,
        }
    }
}

/// A body that was read to its end.
pub(crate) enum WholeBody {
    Memory(Bytes),
    Spooled(SpooledBody),
}

impl WholeBody {
    pub(crate) fn framing(&self) -> Framing {
        Framing::Length(match self {
            WholeBody::Memory(bytes) => bytes.len() as u64,
            WholeBody::Spooled(body) => body.length(),
        })
    }
}
