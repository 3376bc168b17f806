//! A recorded request in the forms that a trial and the evidence of recent requests read.

use larder_gateway::explain::trial::normal_authority;
use larder_observe::recorder::RequestRecord;
use larder_semantics::field::{Field, FieldList};
use larder_semantics::trial::facts;
use larder_semantics::trial::{RecordedRequest, RecordedResponse, ServedBy};
use larder_server::trial::TrialRequest;
use larder_wire::message::{Framing, Request, Version};

/// The positions of a site and of a route in it.
pub(crate) type RoutePlace = (usize, usize);

/// A recorded request in the forms that the trial reads.
pub(super) struct ParsedRecord<'r> {
    pub(super) record: &'r RequestRecord,
    authority: String,
    /// The listener and the fields are in it.
    pub(super) request: TrialRequest<'r>,
    response: Vec<Field<'r>>,
}

impl<'r> ParsedRecord<'r> {
    pub(super) fn of(record: &'r RequestRecord) -> Self {
        let fields = facts::fields(record.fields());
        let request = Request {
            method: record.method().to_owned(),
            scheme: record.scheme,
            target: record.target().to_owned(),
            authority: record.authority().to_owned(),
            version: Version::Http11,
            protocol: None,
            fields: FieldList::from_fields(&fields),
            framing: Framing::Empty,
            expects_continue: false,
        };
        let authority = normal_authority(&request);
        let mut request = TrialRequest::new(request, fields, record.address, record.listener());
        request.own_status = (record.served == ServedBy::Other).then_some(record.status);
        Self { record, authority, request, response: facts::fields(record.response()) }
    }

    pub(super) fn recorded<'s>(&'s self, stored: Option<RecordedResponse<'s>>) -> RecordedRequest<'s> {
        let record = self.record;
        let response = RecordedResponse {
            time: record.time,
            status: record.origin_status,
            fields: &self.response,
            digest: record.digest,
            head: record.head,
            length: record.length.into(),
        };
        RecordedRequest {
            time: record.time,
            span: record.span(),
            weight: record.weight,
            method: record.method(),
            scheme: record.scheme.name(),
            authority: &self.authority,
            target: record.target(),
            fields: &self.request.fields,
            client: record.client,
            status: record.status,
            served: record.served,
            response: (record.origin_status > 0).then_some(response),
            stored,
        }
    }
}
