//! The reports and statuses of all nodes, as the servers have them, and this node's own status there. The meaning of what
//! was read is in the crate above.

use super::follower::PurgeLogSink;
use super::purger::{MOST_NODES, join_all};
use super::run::{FORGET_NODE, FleetPurgeLog};
use super::{LogEnvironment, LogServer, Unavailable};
use larder_wire::node_status::{NodeStatus, ReadStatus};
use larder_wire::purge_entry::{NodeReport, Numbered};

/// Nodes of one request: the values of two records of each, which other programs may have written, are in memory at the same time.
const AT_ONCE: usize = 16;

/// The records on one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSurvey {
    /// The name of its log and the number of the last entry, read before the reports.
    pub head: Option<Numbered>,
    /// The records that exist under the numbers of nodes, the latest 256.
    pub nodes: Vec<SurveyedNode>,
}

/// The records under one number. A node has one number at each server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedNode {
    /// The report of a node; `None` if it is absent or damaged.
    pub report: Option<NodeReport>,
    /// The status of a node; `None` if it is absent.
    pub status: Option<ReadStatus>,
}

impl<S: LogServer, W: LogEnvironment, H: PurgeLogSink> FleetPurgeLog<S, W, H> {
    /// Writes this node's status to each server that has a number for it. One that cannot be reached gets the next one.
    pub async fn publish(&self, status: &NodeStatus) {
        let bytes = status.write();
        let slot = |n: usize| Some((n, self.follower.borrow().slot(n)?));
        let slots: Vec<_> = (0..self.servers.len()).filter_map(slot).collect();
        let write = |(n, slot): (usize, Numbered)| {
            let bytes = &bytes;
            async move { self.servers[n].set(&self.keys.status(slot), bytes, FORGET_NODE).await.is_ok() }
        };
        join_all(slots.into_iter().map(write)).await;
    }

    /// Reads the records of all nodes; `None` for a server that does not answer.
    pub async fn survey(&self) -> Vec<Option<ServerSurvey>> {
        let read = |n: usize| async move { self.survey_of(n).await.ok() };
        join_all((0..self.servers.len()).map(read)).await
    }

    async fn survey_of(&self, n: usize) -> Result<ServerSurvey, Unavailable> {
        let server = &self.servers[n];
        let counters = server.get_many(&[self.keys.head(), self.keys.nodes()]).await?;
        let mut counters = counters.iter().map(|it| it.as_deref().and_then(Numbered::read));
        let head = counters.next().flatten();
        let mut survey = ServerSurvey { head, nodes: Vec::new() };
        let Some(series) = counters.next().flatten() else { return Ok(survey) };
        let first = series.number.saturating_sub(MOST_NODES) + 1;
        let slots: Vec<Numbered> =
            (first..=series.number).map(|number| Numbered { number, ..series }).collect();
        for slots in slots.chunks(AT_ONCE) {
            let keys = slots.iter().flat_map(|it| [self.keys.node(*it), self.keys.status(*it)]);
            let values = server.get_many(&keys.collect::<Vec<_>>()).await?;
            let both = values.as_chunks::<2>().0.iter();
            survey.nodes.extend(both.filter(|it| it.iter().any(Option::is_some)).map(|[report, status]| {
                SurveyedNode {
                    report: report.as_deref().and_then(NodeReport::read),
                    status: status.as_deref().map(NodeStatus::read),
                }
            }));
        }
        Ok(survey)
    }
}
