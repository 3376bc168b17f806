//! A route that serves files: the adapter between the connection and the `files` crate; and the directories of scripts.

use larder_counters::Counters;
use larder_files::{
    Dotfiles, Encoded, FileCompression, FileEncoder, FileFinding, Listing, Root, RootOptions, ScriptOptions,
    ScriptRoot,
};
use larder_gateway::coding::pool::Coders;
use larder_gateway::stages::{self, RequestStage, Stages};
use larder_observe::RequestOutcome;
use larder_semantics::compress::Compress;
use larder_semantics::date;
use larder_semantics::field::Field;
use larder_stdx::clock;
use larder_store::NotMade;
use larder_transport::Reply;
use larder_transport::ResponseWriter as FastAnswer;
use larder_transport::body::BodyPiece;
use larder_wire::message::{Request, RequestHead};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// The encoder of files: that of stored responses, with its levels, its memory and its number of threads.
#[must_use]
pub fn encoder(coders: &Arc<Coders>) -> Arc<FileEncoder> {
    let (concurrency, coders) = (coders.concurrency(), coders.clone());
    FileEncoder::new(concurrency, move |coding, plain| match coders.encode(coding, plain) {
        Ok(bytes) => Encoded::Made(bytes),
        Err(NotMade::Later) => Encoded::Later,
        Err(NotMade::Never | NotMade::Undecodable) => Encoded::NoGain,
    })
}

/// Opens the directory of a route: once for all workers.
///
/// # Errors
/// One sentence: it cannot be opened.
pub fn open(
    files: &larder_config::FilesConfig,
    encoder: &Arc<FileEncoder>,
    counters: Arc<Counters>,
) -> Result<Arc<Root>, String> {
    let compress = |rules: &Arc<Compress>| FileCompression { rules: rules.clone(), encoder: encoder.clone() };
    let options = RootOptions {
        members: files.members.clone(),
        clean_urls: files.clean_urls,
        fall_through: files.fall_through,
        not_found: files.not_found.clone(),
        compress: files.compress.as_ref().map(compress),
        strip: files.strip.clone().unwrap_or_default(),
        index: files.index.clone(),
        listing: if files.listing { Listing::On } else { Listing::Off },
        dotfiles: if files.dotfiles { Dotfiles::Shown } else { Dotfiles::Hidden },
        symlinks: files.symlinks,
        precompressed: files.precompressed,
        cache_for: files.cache_for,
        cache_control: files.cache_control.clone(),
        small_file: files.small_file,
        ..RootOptions::default()
    };
    Root::open(&files.root, options, counters).map_err(|it| unusable(files, &it))
}

/// Opens the directory of the scripts of a route: once for all workers.
///
/// # Errors
/// One sentence: it cannot be opened.
pub fn open_scripts(php: &larder_config::php::PhpConfig) -> Result<Arc<ScriptRoot>, String> {
    let options = ScriptOptions {
        seen_as: php.application_root.clone(),
        front: php.front_controller.clone(),
        symlinks: php.files.symlinks,
        more: php.env.clone(),
        before: php.before.clone(),
        cache_for: php.files.cache_for,
    };
    ScriptRoot::open(&php.files.root, options).map_err(|it| unusable(&php.files, &it))
}

fn unusable(files: &larder_config::FilesConfig, error: &std::io::Error) -> String {
    format!("{} cannot be served: {}.", files.root.display(), larder_stdx::error::plain(error))
}

/// Opens the directory of files that the applications of a route hand over. Every use of a file looks on the disk: an application may
/// replace a file for each request.
///
/// # Errors
/// One sentence: it cannot be opened.
pub fn open_handed(
    files: &larder_config::SendfileConfig,
    counters: Arc<Counters>,
) -> Result<Arc<Root>, String> {
    let options = RootOptions {
        index: Vec::new(),
        fall_through: true, // A directory is no redirect.
        precompressed: false,
        cache_for: Duration::ZERO,
        ..RootOptions::default()
    };
    Root::open(&files.root, options, counters).map_err(|it| {
        format!("{} cannot be served: {}.", files.root.display(), larder_stdx::error::plain(&it))
    })
}

/// One route over files, in one worker.
pub struct FileRoute {
    /// Its name in logs.
    pub name: String,
    root: Arc<Root>,
    date: RefCell<(u64, String)>,
    /// `site.route.server_timing`.
    pub server_timing: bool,
    /// `files.fall_through`: paths without a file belong to the next route.
    pub falls_through: bool,
}

impl FileRoute {
    /// A route over an open directory.
    #[must_use]
    pub fn new(name: String, root: Arc<Root>, server_timing: bool, falls_through: bool) -> Self {
        Self { name, root, date: RefCell::default(), server_timing, falls_through }
    }

    /// Whether it is known, without a look on the disk, that no file answers a GET of `target`.
    #[must_use]
    pub fn is_absent_now(&self, target: &str) -> bool {
        self.root.is_absent_now(target, clock::monotonic())
    }

    /// Whether a file answers a GET of `target`. May look on the disk.
    pub async fn has_file(&self, target: &str, fields: &[Field<'_>]) -> bool {
        self.root.has_file(target, fields, clock::monotonic()).await
    }

    /// Answers a plain GET or HEAD from the open-file cache; returns status and bytes of body, or writes nothing.
    pub fn answer_now(&self, head: &RequestHead<'_>, answer: &mut FastAnswer<'_>) -> Option<(u16, u64)> {
        if !is_plain(head) {
            return None;
        }
        let began = self.server_timing.then(clock::precise_micros);
        let file = self.root.lookup_now(head.target, head.fields, clock::monotonic())?;
        answer.ready(&file.head);
        self.add_date(answer);
        if let Some(began) = began {
            stages::append_lookup_time(began, answer);
        }
        if head.method == "HEAD" {
            answer.end();
            return Some((200, 0));
        }
        match &file.body {
            BodyPiece::Bytes(bytes) => answer.end_with(bytes),
            body => answer.end_with_piece(body.clone()),
        }
        Some((200, file.length()))
    }

    /// `Date`, formatted once a second.
    fn add_date(&self, answer: &mut FastAnswer<'_>) {
        let now = clock::wall();
        let mut cached = self.date.borrow_mut();
        if cached.0 != now.0 {
            *cached = (now.0, date::format(now));
        }
        answer.field("Date", cached.1.as_bytes());
    }

    /// The answer to a request at this moment, for `explain`: it is neither read nor cached.
    pub async fn explain(&self, request: &Request) -> FileFinding {
        self.root.explain(&request.method, &request.target, &request.fields.view()).await
    }

    /// Answers any other request, which may need the disk. `stages` measures the time.
    pub async fn answer(&self, request: &Request, reply: Reply<'_>, stages: &Stages) -> RequestOutcome {
        stages.enter(RequestStage::Read);
        let fields = request.fields.view();
        let now = clock::monotonic();
        let mut answer = self.root.answer(&request.method, &request.target, &fields, now).await;
        stages.enter(RequestStage::Write);
        if self.server_timing {
            stages.add_server_timing(&mut answer.fields);
        }
        RequestOutcome::sent(answer.send(reply).await)
    }
}

/// Whether a request is for the whole file without condition.
fn is_plain(head: &RequestHead<'_>) -> bool {
    let conditional = |it: &Field<'_>| match it.name.len() {
        5 => it.is("range"),
        8 => it.is("if-match"),
        13 => it.is("if-none-match"),
        17 => it.is("if-modified-since"),
        19 => it.is("if-unmodified-since"),
        _ => false,
    };
    matches!(head.method, "GET" | "HEAD") && !head.fields.iter().any(conditional)
}
