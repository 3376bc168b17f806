//! The budget of misses.

use super::*;
use larder_semantics::miss_budget::BudgetClass;

#[test]
fn a_budget_of_a_site_is_shared_by_its_routes() {
    let site = "[[site]]\nhosts = [\"a\"]\naccess = { budget = { misses = \"30/m\", burst = 60 } }\n\
                [[site.route]]\npath = \"/a\"\nproxy = { to = [\":1\"] }\n\
                [[site.route]]\npath = \"/b\"\nproxy = { to = [\":1\"] }\naccess = { budget = { by = \"agent\" } }\n\
                [[site.route]]\npath = \"/c\"\nfiles = { root = \"src\" }\n";
    let config = read(site).unwrap();
    let budgets: Vec<_> = config.sites[0].routes.iter().map(|it| it.budget.clone()).collect();
    let [Some(first), Some(second), None] = &budgets[..] else { panic!("{budgets:?}") };
    assert_eq!(("site a", BudgetClass::Network, 60), (first.scope.as_str(), first.by, first.burst));
    assert_eq!(("a/b", BudgetClass::Agent), (second.scope.as_str(), second.by));
    assert_eq!("30/m misses, burst 60, by network", first.describe());
    let time = site.replace("misses = \"30/m\", burst = 60", "seconds = \"30s/m\"");
    let config = read(&time).unwrap();
    let message: Vec<_> =
        config.sites[0].routes.iter().filter_map(|it| Some(it.budget.as_ref()?.describe())).collect();
    assert_eq!(["30s/1m of the origin, by network", "30s/1m of the origin, by agent"], message[..]);
}

/// Routes of one path with different conditions shared their counts.
#[test]
fn a_limit_of_a_route_has_the_name_of_the_route() {
    let route = |lines: &str| {
        format!(
            "[[site.route]]\npath = \"/login\"\nproxy.to = \":1\"\naccess.limit.rate = \"5/m\"\n{lines}\n"
        )
    };
    let routes = ["when = 'method == \"POST\"'", "", "name = \"third\""].map(route).concat();
    let config = read(&format!("[[site]]\nhosts = [\"a\"]\n{routes}")).unwrap();
    let scopes: Vec<_> = config.sites[0].routes.iter().map(|it| it.access.limits[0].scope.as_str()).collect();
    assert_eq!(["a/login", "a/login#2", "third"], scopes[..]);
}

#[test]
fn mistakes_in_a_budget() {
    let problem = |route: &str| {
        let site = SITE.replace("proxy = { to = [\"http://127.0.0.1:8000\"] }", route);
        read(&site).map(|_| ()).map_err(|it| it.to_string())
    };
    let proxy = "proxy = { to = [\":1\"] }";
    for (route, expect) in [
        (
            format!("{proxy}\naccess = {{ budget = {{ burst = 3 }} }}"),
            "t.toml:6: site.route.access.budget: the budget has no bound; add access.budget.misses, such as \"30/m\", or access.budget.seconds, such as \"30s/1m\"",
        ),
        (
            format!("{proxy}\naccess = {{ budget = {{ seconds = \"30s/1m\", burst = 3 }} }}"),
            "t.toml:6: site.route.access.budget: burst has no effect without a rate; add access.budget.misses, such as \"30/m\"",
        ),
        (
            format!("{proxy}\naccess = {{ budget = {{ seconds = \"30/1m\" }} }}"),
            "t.toml:6: site.route.access.budget.seconds: found \"30/1m\"; allowed: a time of the origin and the time in which it may be used, from 1s to 1d, such as \"30s/1m\"",
        ),
        (
            format!("{proxy}\naccess = {{ budget = {{ misses = \"30/m\", by = \"country\" }} }}"),
            "t.toml:6: site.route.access.budget.by: the country of a client is unknown without a database; add geoip.database = \"FILE.mmdb\"",
        ),
        (
            format!("{proxy}\naccess = {{ budget = {{ misses = \"30/m\", by = \"asn\" }} }}"),
            "t.toml:6: site.route.access.budget.by: the autonomous system of a client is unknown without a database; add geoip.asn_database = \"FILE.mmdb\"",
        ),
        (
            "files = { root = \"src\" }\naccess = { budget = { misses = \"30/m\" } }".to_owned(),
            "t.toml:6: site.route.access.budget: no effect without an origin; remove it",
        ),
    ] {
        assert_eq!(Err(expect.to_owned()), problem(&route), "{route}");
    }
    assert_eq!(Ok(()), problem(&format!("{proxy}\naccess = {{ budget = {{ misses = \"30/m\" }} }}")));
}
