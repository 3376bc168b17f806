//! Sending a file that the application of a route hands over (`sendfile`), with preconditions and ranges like a stored response.

use super::Machine;
use super::deliver::{FileResponse, Sent, flush_while_waiting, own_page};
use larder_files::OpenFile;
use larder_semantics::cache_status::CacheReport;
use larder_semantics::conditional::{self, Precondition};
use larder_semantics::field::FieldList;
use larder_semantics::file_order;
use larder_semantics::policy::Policy;
use larder_semantics::range::{self, Selection};
use larder_semantics::stored::Meta;
use larder_stdx::clock;
use larder_transport::Reply;

impl<'c> Machine<'_, 'c> {
    pub async fn send_ordered_file(&mut self, reply: &mut Reply<'c>, file: FileResponse) -> Sent {
        if file.upload {
            reply.close_after(); // The rest of the request's body is not read.
        }
        if let Some(source) = &file.source {
            source.leave().await;
        }
        let FileResponse { file, source, fields, report, .. } = file;
        drop(source);
        match flush_while_waiting(self.input.stages, reply, file.open()).await? {
            Ok(file) => self.send_file(reply, &file, fields, report).await,
            Err(why) => {
                let why = why.shown();
                self.send_page(reply, own_page(why.status(), why.sentence()), Some(report)).await
            }
        }
    }

    async fn send_file(
        &mut self,
        reply: &mut Reply<'c>,
        file: &OpenFile,
        fields: FieldList,
        report: CacheReport,
    ) -> Sent {
        let mut fields = file_order::merged(fields, &file.fields);
        let now = clock::wall();
        let meta = Meta::of(200, &fields.view(), &Policy::default(), now, now);
        if matches!(self.input.facts.method, "GET" | "HEAD") {
            match self.input.precondition(&meta) {
                Precondition::Proceed => {}
                early => return self.send_precondition(reply, early, fields, report).await,
            }
        }
        let (whole, length) = (file.body.clone(), file.length());
        let applies = |_: &&[u8]| {
            self.input.facts.method == "GET" && conditional::range_applies(self.input.fields, &meta)
        };
        let range = self.input.facts.range.filter(applies);
        match range.map_or(Selection::Whole, |it| range::select(it, length)) {
            Selection::Whole => self.send_pieces(reply, 200, fields, vec![whole], report).await,
            Selection::One(first, last) => {
                fields.set("Content-Range", format!("bytes {first}-{last}/{length}"));
                let part = whole.slice(first, last - first + 1);
                self.send_pieces(reply, 206, fields, vec![part], report).await
            }
            Selection::Many(ranges) => self.send_many(reply, fields, &whole, &ranges, report).await,
            Selection::Unsatisfiable => self.send_unsatisfiable(reply, fields, length, report).await,
        }
    }
}
