//! Every proposal is held against the decision that it is to flip.

use super::*;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const NOW: WallTime = WallTime(1_700_000_000);

/// Lines of requests that decide something.
const LINES: &[(&str, &str)] = &[
    ("Cookie", "session=1"),
    ("Cookie", "theme=dark"),
    ("Content-Length", "3"),
    ("Transfer-Encoding", "chunked"),
    ("X-HTTP-Method-Override", "DELETE"),
    ("X-Original-URL", "/admin"),
    ("Max-Forwards", "0"),
    ("Max-Forwards", "7"),
    ("Cache-Control", "no-cache"),
    ("Cache-Control", "only-if-cached, max-age=5"),
    ("Cache-Control", "no-store"),
    ("Pragma", "no-cache"),
    ("Authorization", "Basic eDp5"),
    ("Range", "bytes=0-1"),
];

prop_compose! {
    fn asked()(
        method in select(vec!["GET", "HEAD", "POST", "OPTIONS", "TRACE", "DELETE"]),
        target in select(vec!["/", "/a?b=c", "*"]),
        lines in subsequence(LINES.to_vec(), 0..=4),
        enabled in any::<bool>(),
        ignores in any::<bool>(),
        private in any::<bool>(),
    ) -> ChangedRequest {
        let mut fields = FieldList::new();
        lines.iter().for_each(|(name, value)| fields.push(name, value));
        let mut policy = Policy { enabled, ..Policy::default() };
        if ignores {
            policy.request_directives = larder_semantics::policy::RequestDirectivePolicy::Ignore;
        }
        policy.private_cookies = if private { vec!["session*".to_owned()] } else { Vec::new() };
        ChangedRequest { method: method.to_owned(), target: target.to_owned(), fields, policy }
    }
}

fn stored(control: &str, policy: &Policy) -> Meta {
    let mut fields = FieldList::new();
    fields.push("Cache-Control", control);
    Meta::of(200, &fields.view(), policy, NOW, NOW)
}

/// A request that uses the cache, of any that can be brought to.
fn within(asked: ChangedRequest) -> Option<ChangedRequest> {
    let asked = into_the_cache(&asked).map_or(asked.clone(), |it| asked.with(&it));
    (asked.bypass().is_none() && !asked.is_refused()).then_some(asked)
}

#[test]
fn all_conditions_that_prevent_caching_are_listed() {
    let mut fields = FieldList::new();
    [("Content-Length", "3"), ("Cookie", "session=1"), ("X-HTTP-Method-Override", "PUT")]
        .iter()
        .for_each(|(name, value)| fields.push(name, value));
    let policy = Policy { enabled: false, private_cookies: vec!["session*".to_owned()], ..Policy::default() };
    let asked = ChangedRequest { method: "POST".to_owned(), target: "/".to_owned(), fields, policy };
    let remedies = into_the_cache(&asked).unwrap();
    let report = "5 conditions prevent it, and each of these changes is required: Send the request with GET. Send the request without a body. Send the request without Cookie. Send the request without the field that may change the target, method or user. Set cache.enabled = true for the route.";
    assert_eq!(report, of_remedies(&remedies));
    assert_eq!(
        "Send the request with GET. Set cache.enabled = true for the route.",
        of_remedies(&[remedies[0], remedies[4]])
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// What is to let a request use the cache does, and each part of it is needed.
    #[test]
    fn into_the_cache_it_comes(asked in asked()) {
        let outside = |it: &ChangedRequest| it.is_refused() || it.bypass().is_some();
        match into_the_cache(&asked) {
            Some(remedies) => {
                prop_assert!(outside(&asked), "nothing was to be changed");
                prop_assert!(!outside(&asked.with(&remedies)), "{remedies:?}");
                for left_out in 0..remedies.len() {
                    let mut rest = remedies.clone();
                    rest.remove(left_out);
                    prop_assert!(outside(&asked.with(&rest)), "{remedies:?} is more than is needed");
                }
            }
            None => {
                // Nothing of a request can make `*` a resource.
                prop_assert!(!outside(&asked) || asked.target == "*");
            }
        }
    }

    /// What is to have a request travel on does, and so does what is to have it leave the store.
    #[test]
    fn onwards_it_travels(asked in asked()) {
        let ends = |it: &ChangedRequest| request_headers::max_forwards(&it.method, &it.fields.view()) == Some(0);
        match onwards(&asked) {
            Some(remedies) => prop_assert!(ends(&asked) && !ends(&asked.with(&remedies))),
            None => prop_assert!(!ends(&asked)),
        }
        let stays = |it: &ChangedRequest| it.reuse(Err(ForwardReason::UriMiss), NOW) == Reuse::GatewayTimeout;
        prop_assert!(!stays(&asked.with(&[Remedy::NoOnlyIfCached])), "it leaves the store");
    }

    /// Who is told to ask once is answered the second time; other changes are those of
    /// `flip`, which are held against the decision there.
    #[test]
    fn the_second_time_is_answered(asked in asked()) {
        let Some(asked) = within(asked) else { return Ok(()) };
        let mut lines = FieldList::new();
        lines.push("Cache-Control", "max-age=60");
        let stores = |it: &ChangedRequest| {
            let fields = it.fields.view();
            let facts = RequestFacts::read(&it.method, &fields);
            storable::decide(&facts, 200, &lines.view(), &it.policy, NOW, NOW, &mut Silent) == Storable::Store
        };
        let answered = |it: &ChangedRequest| is_answer(&it.reuse(Ok(&stored("max-age=60", &it.policy)), NOW));
        match ordinary_response(&asked, NOW) {
            OrdinaryResponse::Answers => prop_assert!(stores(&asked) && answered(&asked)),
            OrdinaryResponse::AnswersWith(changes) => {
                prop_assert!(stores(&asked) && !answered(&asked) && !changes.is_empty());
                let without = |it: &mut ChangedRequest, name: &str| it.fields.remove(name);
                let mut changed = asked.clone();
                let mut only_of_the_request = true;
                for it in &changes {
                    match it {
                        flip::FlipChange::RemoveRequestHeader { name } => without(&mut changed, name),
                        flip::FlipChange::RemoveRequestBody => Remedy::NoBody.apply(&mut changed),
                        _ => only_of_the_request = false,
                    }
                }
                prop_assert!(!only_of_the_request || answered(&changed), "{changes:?}");
            }
            OrdinaryResponse::With(changes) => prop_assert!(!stores(&asked) && !changes.is_empty()),
            OrdinaryResponse::Nothing => prop_assert!(!stores(&asked) || !answered(&asked)),
        }
    }
}
