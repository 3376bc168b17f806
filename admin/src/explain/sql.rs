//! `explain`: the database of a route with a query, and the changes of rows that purge the page of a request: the grade of each table, and
//! why.

use larder_config::{RouteConfig, Service};
use larder_server::row_freshness::PageFreshness;
use larder_server::row_purges::FollowStates;
use larder_wire::message::Request;
use serde_json::{Value, json};

/// Null for a route without a query.
pub(super) fn to_json(route: &RouteConfig, request: &Request, standings: &FollowStates) -> Value {
    let Service::Sql(config) = &route.service else { return Value::Null };
    let freshness = PageFreshness::of(config, &route.path, request, standings);
    let rows: Vec<Value> = freshness
        .rows
        .iter()
        .map(|it| json!({ "rows": it.rows, "grade": it.grade.to_string(), "sentence": it.sentence, "tag": it.tag }))
        .collect();
    json!({
        "database": config.database.name,
        "place": config.database.place.to_string(),
        "grade": freshness.grade.to_string(),
        "sentence": freshness.sentence,
        "rows": rows,
        "where": route.decided.by("site[].route[].sql.rows").to_string(),
    })
}
