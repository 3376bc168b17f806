//! `explain` over files: the file, redirect or refusal that answers a request, and the option that decides. It looks at the names
//! beneath the root as a request does, reads no file, and leaves the open-file cache as it is.

use crate::answer::{self, NotServed};
use crate::find::{self, FileRule, PathAnswer};
use crate::members::TryMember;
use crate::root::Root;
use larder_semantics::field::Field;
use larder_stdx::clock;
use std::sync::Arc;

/// The answer to a request over files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOutcome {
    /// A file.
    File {
        /// Its path beneath the root.
        path: String,
        /// Whether `Accept` chose it.
        by_accept: bool,
    },
    /// The listing of this directory beneath the root.
    Listing(String),
    /// 301 to this path and query.
    Redirect(String),
    /// No file.
    Refused {
        /// The reason.
        why: NotServed,
        /// The page that is sent with it.
        page: Option<String>,
    },
    /// The response to a method other than GET and HEAD, with this status.
    OtherMethod(u16),
}

/// The answer to a request, and the option that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFinding {
    /// The answer.
    pub outcome: FileOutcome,
    /// The option; `None` if no file answers.
    pub by: Option<FileRule>,
    /// The member of `files.try`, if one decides.
    pub member: Option<TryMember>,
}

impl Root {
    /// The answer to a request at this moment. Looks on the disk, in the queue of the lookups of requests.
    pub async fn explain(self: &Arc<Self>, method: &str, target: &str, fields: &[Field<'_>]) -> FileFinding {
        let finding = |outcome, by| FileFinding { outcome, by, member: self.member_of(by) };
        if let Some(other) = answer::to_other_method(method) {
            return finding(FileOutcome::OtherMethod(other.status), None);
        }
        let merged = self.merged(target);
        let job = match self.job(merged.as_deref().unwrap_or(target), fields, clock::monotonic()) {
            Ok(job) => job,
            Err(why) => return finding(self.refused(why), None),
        };
        let turn = match self.turn().await {
            Ok((turn, _)) => turn,
            Err(why) => return finding(self.refused(why), None),
        };
        let root = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            let found = match find::choose(&root.served().view(), &job) {
                Ok(_) if merged.is_some() => {
                    (outcome(PathAnswer::Redirect(job.path.to_vec()), &job.query), Some(FileRule::Merged))
                }
                Ok(it) => (outcome(it.answer, &job.query), Some(it.by)),
                Err(why) => (root.refused(why), None),
            };
            drop(turn);
            found
        });
        let (outcome, by) = work.await.unwrap_or_else(|_| (self.refused(NotServed::Failed), None));
        finding(outcome, by)
    }

    fn member_of(&self, by: Option<FileRule>) -> Option<TryMember> {
        let (FileRule::Member(at) | FileRule::Index(at)) = by? else { return None };
        self.served().options.members.get(at).cloned()
    }

    fn refused(&self, why: NotServed) -> FileOutcome {
        let page = self.served().options.not_found.as_ref().filter(|_| why == NotServed::NotFound);
        let page = page.filter(|it| find::has_page(&self.served().view(), it));
        FileOutcome::Refused { why, page: page.cloned() }
    }
}

fn outcome(answer: PathAnswer, query: &str) -> FileOutcome {
    let text = |it: Vec<u8>| String::from_utf8_lossy(&it).into_owned();
    match answer {
        PathAnswer::File(file, _) => FileOutcome::File { path: text(file), by_accept: false },
        PathAnswer::Page { page, by_accept, .. } => {
            FileOutcome::File { path: page.trim_start_matches('/').to_owned(), by_accept }
        }
        PathAnswer::Listing(directory) => FileOutcome::Listing(text(directory)),
        PathAnswer::Redirect(path) => FileOutcome::Redirect(find::location(&path, query)),
    }
}
