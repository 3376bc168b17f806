//! The form in which a response that is not stored goes to its client. `semantics::transcode::in_transit` decides about it;
//! `source::coded` codes the body.

use crate::coding::stream::BodyEncoder;
use crate::route::Gateway;
use crate::source::{CodedBody, CoderRoom, ResponseSource};
use larder_semantics::coding::Coding;
use larder_semantics::field::{self, FieldList};
use larder_semantics::policy::Policy;
use larder_semantics::request::RequestFacts;
use larder_semantics::transcode::{self, TransitForm};
use larder_wire::message::{Framing, Request, ResponseHead};

/// The form in which a response that is not stored goes to its client.
pub(crate) struct Transit {
    form: TransitForm,
    /// The coder of its body, if it has one.
    coder: Option<(BodyEncoder, CoderRoom)>,
}

impl Transit {
    /// The form in which it came.
    pub fn none() -> Self {
        Self { form: TransitForm::Own, coder: None }
    }

    /// Decides about the response to a request, and makes room for its coder.
    pub fn of(gateway: &Gateway, policy: &Policy, request: &Request, response: &ResponseHead) -> Self {
        let own = |form| Self { form, coder: None };
        let levels = gateway.coders.get().and_then(|it| it.levels());
        let Some(levels) = levels.filter(|_| policy.compress.is_some()) else { return own(TransitForm::Own) };
        let (fields, asked) = (response.fields.view(), request.fields.view());
        let facts = RequestFacts::read(&request.method, &asked);
        let is_head = request.method == "HEAD";
        let length = match response.framing {
            Framing::Length(length) => Some(length),
            Framing::Empty if is_head => {
                let text = field::first(&fields, "content-length");
                text.and_then(|it| std::str::from_utf8(it).ok()?.parse().ok())
            }
            Framing::Empty => Some(0),
            Framing::Chunked | Framing::Close => None,
        };
        let form = transcode::in_transit(response.status, &fields, length, &facts, &asked, policy);
        let TransitForm::Coded(coding) = form else { return own(form) };
        if is_head {
            return own(form);
        }
        let room =
            CoderRoom::take(&gateway.store, &gateway.transit_coders, BodyEncoder::memory(coding, length));
        let coder = room.and_then(|room| Some((BodyEncoder::new(coding, levels, length).ok()?, room)));
        match coder {
            Some(coder) => Self { form, coder: Some(coder) },
            None => {
                gateway.counters.coding_no_memory.add(1);
                own(TransitForm::OwnOfSeveral)
            }
        }
    }

    /// The fields of the response in this form.
    pub fn fields(&self, mut fields: FieldList) -> FieldList {
        match self.form {
            TransitForm::Own => fields,
            TransitForm::OwnOfSeveral => {
                transcode::mark(&mut fields);
                fields
            }
            TransitForm::Coded(coding) => {
                transcode::mark(&mut fields);
                transcode::form_fields(&fields, coding)
            }
        }
    }

    /// The coding that is applied.
    pub fn coding(&self) -> Option<Coding> {
        match self.form {
            TransitForm::Coded(coding) => Some(coding),
            TransitForm::Own | TransitForm::OwnOfSeveral => None,
        }
    }

    /// The body in this form.
    pub fn body(self, gateway: &Gateway, source: ResponseSource) -> ResponseSource {
        let Some((encoder, room)) = self.coder else { return source };
        gateway.counters.coding_streams.add(1);
        ResponseSource::Coded(CodedBody::new(source, encoder, room))
    }
}
