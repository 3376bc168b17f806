//! The forms of one file: the plain bytes, its precompressed siblings, and the codings that are made of it. The encoder is
//! given by the layers above; the threads and the cache that keeps the forms are in `root` and `cache`.

use crate::negotiate::{self, FileCoding};
use crate::open_file::OpenFile;
use larder_semantics::coding::Coding;
use larder_semantics::compress::Compress;
use larder_semantics::field::Field;
use larder_semantics::transcode;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Requests that wait for an encoder, over all files: above this number a request gets the plain form, and a later one has
/// the coded form made.
const MOST_WAITING: usize = 64;

/// The result of an encoder.
#[derive(Debug)]
pub enum Encoded {
    /// The whole body in the coding.
    Made(Vec<u8>),
    /// It would not become smaller: it is not tried again.
    NoGain,
    /// There is no memory for it now.
    Later,
}

/// Codes a whole body. Blocks; it runs on the pool of threads for files.
type Encode = dyn Fn(Coding, &[u8]) -> Encoded + Send + Sync;

/// The encoder of all served directories, with a limit of encodings at the same time.
pub struct FileEncoder {
    encode: Box<Encode>,
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl FileEncoder {
    /// At most `concurrency` bodies are coded at the same time.
    #[must_use]
    pub fn new(
        concurrency: usize,
        encode: impl Fn(Coding, &[u8]) -> Encoded + Send + Sync + 'static,
    ) -> Arc<FileEncoder> {
        let turns = Arc::new(Semaphore::new(concurrency.max(1)));
        Arc::new(FileEncoder { encode: Box::new(encode), turns, waiting: AtomicUsize::new(0) })
    }

    /// Codes `plain` on this thread.
    pub(crate) fn encode(&self, coding: FileCoding, plain: &[u8]) -> Encoded {
        (self.encode)(coding.in_general(), plain)
    }

    /// Waits for a turn; `None` if too many requests wait already.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        if self.waiting.fetch_add(1, Relaxed) >= MOST_WAITING {
            self.waiting.fetch_sub(1, Relaxed);
            return None;
        }
        let _place = Waiting(&self.waiting);
        self.turns.clone().acquire_owned().await.ok()
    }
}

impl std::fmt::Debug for FileEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileEncoder").finish_non_exhaustive()
    }
}

/// Given back also when the client goes away.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The forms of one file.
pub struct FileForms {
    /// The plain file.
    pub plain: Arc<OpenFile>,
    /// Its siblings, in the order of [`FileCoding::ALL`].
    pub coded: Vec<(FileCoding, Arc<OpenFile>)>,
    /// Those that are made of it, if it is compressed at all.
    made: Option<Box<MadeForms>>,
}

/// Empty until the form is made; `None` in it: the form is never made.
type FormSlot = OnceLock<Option<Arc<OpenFile>>>;

/// Forms that are made, each once.
struct MadeForms {
    /// The codings to make, in order of preference; those of siblings are not among them.
    codings: Vec<FileCoding>,
    /// By the position in `codings`.
    slots: [FormSlot; 3],
    /// Those that are being made, one bit each.
    claimed: AtomicU8,
    settled: Notify,
}

/// The form for a request.
pub enum FormChoice<'a> {
    /// It exists.
    Ready(&'a Arc<OpenFile>),
    /// It is to be made.
    Make(FileCoding),
}

impl FileForms {
    /// The forms that exist, and by `compress` those that may be made of a file with `media_type`.
    pub fn new(
        plain: Arc<OpenFile>,
        coded: Vec<(FileCoding, Arc<OpenFile>)>,
        compress: Option<&Compress>,
    ) -> FileForms {
        let made = compress.map(|it| {
            let codings = it.codings.iter().filter_map(FileCoding::of);
            let codings = codings.filter(|it| !coded.iter().any(|sibling| sibling.0 == *it)).collect();
            let (slots, claimed, settled) = (Default::default(), AtomicU8::new(0), Notify::new());
            Box::new(MadeForms { codings, slots, claimed, settled })
        });
        FileForms { plain, coded, made }
    }

    /// Whether both were read from the same state of the same files.
    pub fn is_same_state(&self, other: &FileForms) -> bool {
        let siblings = |it: &FileForms| it.coded.iter().map(|it| (it.0, it.1.identity)).collect::<Vec<_>>();
        self.plain.identity == other.plain.identity && siblings(self) == siblings(other)
    }

    /// Every form that exists.
    pub fn all(&self) -> impl Iterator<Item = &Arc<OpenFile>> {
        let made = self.made.iter().flat_map(|it| it.slots.iter().filter_map(|it| it.get()?.as_ref()));
        std::iter::once(&self.plain).chain(self.coded.iter().map(|it| &it.1)).chain(made)
    }

    /// The form that a request prefers. Among equal qualities a sibling is chosen before a form that is made; a request
    /// about exact bytes gets none that is made (RFC 9110 §14.2: these have weak tags and no ranges).
    pub fn choose(&self, fields: &[Field<'_>]) -> FormChoice<'_> {
        let made = self.made.as_ref().filter(|_| !transcode::is_exact(fields, false));
        if self.coded.is_empty() && made.is_none() {
            return FormChoice::Ready(&self.plain);
        }
        let slots = || made.iter().flat_map(|it| it.codings.iter().zip(&it.slots));
        let possible = || slots().filter(|it| !matches!(it.1.get(), Some(None)));
        let codings = self.coded.iter().map(|it| it.0).chain(possible().map(|it| *it.0));
        let Some(at) = negotiate::choose(fields, codings) else { return FormChoice::Ready(&self.plain) };
        if let Some((_, sibling)) = self.coded.get(at) {
            return FormChoice::Ready(sibling);
        }
        match possible().nth(at - self.coded.len()) {
            Some((coding, slot)) => match slot.get() {
                Some(Some(form)) => FormChoice::Ready(form),
                _ => FormChoice::Make(*coding),
            },
            None => FormChoice::Ready(&self.plain),
        }
    }

    /// The made forms, the bit of `coding` among the claimed ones, and its slot.
    fn slot(&self, coding: FileCoding) -> Option<(&MadeForms, u8, &FormSlot)> {
        let made = self.made.as_deref()?;
        let at = made.codings.iter().position(|it| *it == coding)?;
        Some((made, 1 << at, &made.slots[at]))
    }

    /// The form in `coding`, if it was made.
    pub fn made(&self, coding: FileCoding) -> Option<Arc<OpenFile>> {
        self.slot(coding)?.2.get()?.clone()
    }

    /// Whether the caller is to make this form: no other request does. [`FileForms::give_back`] ends the claim.
    pub fn claim(&self, coding: FileCoding) -> bool {
        self.slot(coding).is_some_and(|(made, bit, slot)| {
            made.claimed.fetch_or(bit, SeqCst) & bit == 0
                && (slot.get().is_none() || {
                    self.give_back(coding);
                    false
                })
        })
    }

    /// Ends a claim, whether the form was made or not.
    pub fn give_back(&self, coding: FileCoding) {
        if let Some((made, bit, _)) = self.slot(coding) {
            made.claimed.fetch_and(!bit, SeqCst);
            made.settled.notify_waiters();
        }
    }

    /// Waits until no request makes this form.
    pub async fn settled(&self, coding: FileCoding) {
        let Some((made, bit, _)) = self.slot(coding) else { return };
        loop {
            let mut settled = std::pin::pin!(made.settled.notified());
            settled.as_mut().enable();
            if made.claimed.load(SeqCst) & bit == 0 {
                return;
            }
            settled.await;
        }
    }

    /// Keeps a form, or that it is never made. Only the cache calls this, as the form counts in its size.
    pub fn keep(&self, coding: FileCoding, form: Option<Arc<OpenFile>>) {
        if let Some((_, _, slot)) = self.slot(coding) {
            let _ = slot.set(form); // Its claim excludes a second one.
        }
    }
}
