use super::*;
use proptest::prelude::*;
use serde_json::json;

fn edit(text: &str, path: Json, change: EditChange) -> Result<String, String> {
    let edit = Edit::read(&json!({ "path": path, "value": null })).unwrap();
    apply(text, &[Edit { change, ..edit }])
}

#[track_caller]
fn set(text: &str, path: Json, value: Json, expect: &str) {
    let found = edit(text, path.clone(), EditChange::Set(value)).unwrap();
    assert_eq!(expect, found, "{path}");
}

#[track_caller]
fn remove(text: &str, path: Json, expect: &str) {
    assert_eq!(expect, edit(text, path.clone(), EditChange::Remove).unwrap(), "{path}");
}

#[test]
fn a_value_is_replaced_where_it_stands() {
    set("# a\nx = 1 # b\n", json!(["x"]), json!("é\"\n"), "# a\nx = \"é\\\"\\n\" # b\n");
    set("a.b = 1\n", json!(["a", "b"]), json!(true), "a.b = true\n");
    set(
        "[a]\n  b = { c = 1, d = 2 } # e\n",
        json!(["a", "b", "c"]),
        json!("7"),
        "[a]\n  b = { c = \"7\", d = 2 } # e\n",
    );
    set("x = 1\r\ny = 2\r\n", json!(["x"]), json!(3), "x = 3\r\ny = 2\r\n");
    set("\u{feff}x = 1\n", json!(["x"]), json!(3), "\u{feff}x = 3\n");
}

#[test]
fn a_missing_key_is_added_in_the_style_of_its_section() {
    set("x = 1 # a\n\n# b\n[c]\n", json!(["y"]), json!(2), "x = 1 # a\ny = 2\n\n# b\n[c]\n");
    set("# top\n\n# b\n[c]\n", json!(["y"]), json!(2), "# top\n\ny = 2\n\n# b\n[c]\n");
    set("", json!(["y"]), json!(2), "y = 2\n");
    set("[c]\n  d = 1", json!(["c", "e"]), json!([1]), "[c]\n  d = 1\n  e = [1]\n");
    set("[c] # d\n", json!(["c", "e"]), json!(1), "[c] # d\ne = 1\n");
    set("x = 1\n", json!(["cache", "ram", "size"]), json!("1GiB"), "x = 1\n\n[cache.ram]\nsize = \"1GiB\"\n");
    set("[cache.ram]\n", json!(["cache", "ttl"]), json!(1), "[cache.ram]\n\n[cache]\nttl = 1\n");
    set(
        "cache.ram.size = 1\nx = 1\n",
        json!(["cache", "ttl"]),
        json!(1),
        "cache.ram.size = 1\ncache.ttl = 1\nx = 1\n",
    );
    set(
        "cache.ram.size = 1\n",
        json!(["cache", "disk", "path"]),
        json!("a"),
        "cache.ram.size = 1\ncache.disk.path = \"a\"\n",
    );
    let route = json!(["site", 0, "route", 0, "cache", "default_ttl"]);
    let site = "[[site]]\nhosts = \"*\"\n[[site.route]]\npath = \"/\"\n";
    set(site, route.clone(), json!("60s"), &format!("{site}cache = {{ default_ttl = \"60s\" }}\n"));
    let inline = "[[site]]\nroute = [{ path = \"/\", cache = { } }]\n";
    set(
        inline,
        route,
        json!("60s"),
        "[[site]]\nroute = [{ path = \"/\", cache = { default_ttl = \"60s\" } }]\n",
    );
}

#[test]
fn a_removed_key_leaves_its_comments() {
    remove("# a\nx = 1\ny = 2\n", json!(["x"]), "# a\ny = 2\n");
    remove("# a\n  x = 1 # b\ny = 2", json!(["x"]), "# a\n  # b\ny = 2");
    remove("a.b.c = 1 # d\n", json!(["a", "b", "c"]), "# d\n");
    remove("x = [\n 1, # one\n] # list\n", json!(["x"]), "# list\n");
    remove("a = { b = 1, c = 2 }\n", json!(["a", "b"]), "a = { c = 2 }\n");
    remove("a = { b = 1, c = 2 }\n", json!(["a", "c"]), "a = { b = 1 }\n");
    remove("a = { b = 1 }\n", json!(["a", "b"]), "");
    remove("x = 1\na = { b = { c = 1 } }\n", json!(["a", "b", "c"]), "x = 1\n");
    remove("a = { b = { c = 1 }, d = 2 }\n", json!(["a", "b", "c"]), "a = { d = 2 }\n");
    remove("a = [{ b = 1 }]\n", json!(["a", 0, "b"]), "a = [{  }]\n");
    remove("# x\n[a]\n# y\nb = 1\n# z\n\n[c]\n", json!(["a"]), "# x\n# z\n\n[c]\n");
    remove("x = 1\n", json!(["y", "z"]), "x = 1\n");
}

#[test]
fn lists_keep_the_comments_of_their_members() {
    let list = "x = [\n  \"a\", # first\n  \"b\", # second\n  # end\n]\n";
    set(
        list,
        json!(["x"]),
        json!(["a", "c", "b"]),
        "x = [\n  \"a\", # first\n  \"c\", # second\n  \"b\",\n  # end\n]\n",
    );
    set(list, json!(["x"]), json!(["b"]), "x = [\n  # first\n  \"b\", # second\n  # end\n]\n");
    set(list, json!(["x"]), json!(["a"]), "x = [\n  \"a\", # first\n  # second\n  # end\n]\n");
    set("x = [1, 2]\n", json!(["x"]), json!([2, 3]), "x = [2, 3]\n");
    set("x = [1, 2]\n", json!(["x"]), json!([]), "x = []\n");
    set("x = [1, 2,]\n", json!(["x"]), json!([1, 2, 3]), "x = [1, 2, 3]\n");
    set("x = []\n", json!(["x"]), json!([1]), "x = [1]\n");
    set("x = [\n  1\n]\n", json!(["x"]), json!([1, 2]), "x = [\n  1,\n  2\n]\n");
}

const SITES: &str = "# top\nworkers = 2\n\n# one\n[[site]]\nhosts = \"a\"\n# one, route\n[[site.route]]\npath = \"/x\" # x\n\
     [[site.route]]\npath = \"/y\"\n\n# two\n[[site]]\nhosts = \"b\"\n[[site.route]]\npath = \"/z\"\n\n[log]\naccess = \"-\"\n";

#[test]
fn sites_and_routes_come_go_and_move() {
    let new = json!({ "path": "/new", "proxy": { "to": ["http://h:1"] } });
    set(
        SITES,
        json!(["site", 0, "route", 2]),
        new.clone(),
        &SITES.replace(
            "\"/y\"\n",
            "\"/y\"\n\n[[site.route]]\npath = \"/new\"\nproxy = { to = [\"http://h:1\"] }\n",
        ),
    );
    let site = json!({ "hosts": ["c"], "route": [new] });
    let text = edit(SITES, json!(["site", 2]), EditChange::Set(site.clone())).unwrap();
    assert!(text.contains("[[site]]\nhosts = [\"c\"]\n\n[[site.route]]\npath = \"/new\""), "{text}");
    assert_eq!(site, as_json(&text).unwrap()["site"][2]);
    let moved = edit(SITES, json!(["site", 1]), EditChange::Move(0)).unwrap();
    assert!(moved.contains("workers = 2\n\n# two\n[[site]]\nhosts = \"b\""), "{moved}");
    assert!(moved.find("# two").unwrap() < moved.find("# one\n").unwrap(), "{moved}");
    assert_eq!(SITES, edit(&moved, json!(["site", 1]), EditChange::Move(0)).unwrap());
    let moved = edit(SITES, json!(["site", 0, "route", 0]), EditChange::Move(1)).unwrap();
    assert!(moved.contains("\"/y\"\n\n# one, route\n[[site.route]]\npath = \"/x\" # x\n"), "{moved}");
    let gone = edit(SITES, json!(["site", 0, "route", 0]), EditChange::Remove).unwrap();
    assert_eq!(SITES.replace("[[site.route]]\npath = \"/x\" # x\n", "# x\n"), gone);
    assert_eq!(
        json!("b"),
        as_json(&edit(SITES, json!(["site", 0]), EditChange::Remove).unwrap()).unwrap()["site"][0]["hosts"]
    );
    set("x = 1\n", json!(["site", 0]), json!({ "hosts": "*" }), "x = 1\n\n[[site]]\nhosts = \"*\"\n");
    let inline = "[[site]]\nroute = [{ path = \"/a\" }, { path = \"/b\" }]\n";
    let moved = edit(inline, json!(["site", 0, "route", 1]), EditChange::Move(0)).unwrap();
    assert_eq!("[[site]]\nroute = [{ path = \"/b\" }, { path = \"/a\" }]\n", moved);
}

#[test]
fn a_line_is_within_a_site_or_a_route() {
    let sections = Sections::of(SITES);
    let report: Vec<String> = (1..=20).map(|it| spell(sections.with(it))).collect();
    let (a, x, y) = ("site[0]", "site[0].route[0]", "site[0].route[1]");
    let expect = ["", "", "", "", a, a, a, x, x, y, y, y, y, "site[1]", "site[1]"];
    let rest = ["site[1].route[0]", "site[1].route[0]", "site[1].route[0]", "", ""];
    assert_eq!(20, SITES.lines().count());
    assert_eq!([&expect[..], &rest[..]].concat(), report, "{SITES}");
    assert!(Sections::of("x = ").with(1).is_empty() && sections.with(99).is_empty());
}

#[test]
fn an_edit_with_a_wrong_path_is_rejected() {
    let refuse = |text: &str, path: Json, change: EditChange, expect: &str| {
        let sentence = edit(text, path.clone(), change).unwrap_err();
        assert!(sentence.contains(expect), "{path}: {sentence}");
    };
    refuse("x = ", json!(["x"]), EditChange::Remove, "not TOML");
    refuse(SITES, json!(["site", 7, "hosts"]), EditChange::Set(json!(1)), "site[7] does not exist");
    refuse(SITES, json!(["site", 0, "route", 9]), EditChange::Remove, "site[0].route[9] does not exist");
    refuse(SITES, json!(["workers", "x"]), EditChange::Set(json!(1)), "workers.x does not exist");
    refuse(SITES, json!(["log"]), EditChange::Set(json!(1)), "is a section");
    refuse(SITES, json!(["site", 0]), EditChange::Move(2), "site[0] does not exist");
    refuse(SITES, json!(["x"]), EditChange::Set(json!(1.5)), "not a whole number");
    for bad in [
        json!({}),
        json!({ "path": [], "value": 1 }),
        json!({ "path": ["x"] }),
        json!({ "path": [-1], "value": 1 }),
    ] {
        assert!(Edit::read(&bad).unwrap_err().contains("An edit is"), "{bad}");
    }
}

/// The numbers of the comments of [`DECORATED`] that a text has.
fn comments(text: &str) -> Vec<u32> {
    let number = |it: &str| it[..it.find(|it: char| !it.is_ascii_digit()).unwrap_or(it.len())].parse().ok();
    text.split("# c").filter_map(number).collect()
}

/// A configuration as people write them, with a comment wherever one may stand.
const DECORATED: &str = "# c0\n\n# c1\nlisten = [ # c2\n  \"a\", # c3\n  # c4\n  \"b\" # c5\n] # c6\nworkers = 2 # c7\ncache.ram.size = \"1\" # c8\n\
     # c9\n\n# c10\n[limits] # c11\n  # c12\n  head = \"1\" # c13\n\n  body = \"2\"\n# c14\n\n# c15\n[[site]] # c16\nhosts = [\"a\", \"b\"] # c17\n\
     # c18\n[[site.route]]\npath = \"/a\" # c19\nproxy = { to = [\"x\"], host = \"own\" } # c20\n[[site.route]]\n# c21\npath = \"/b\"\n# c22\n\n\
     [log]\naccess = \"-\"\n# c23\n";

fn keys() -> impl Strategy<Value = Json> {
    proptest::sample::select(vec![
        json!(["listen"]),
        json!(["workers"]),
        json!(["cache", "ram", "size"]),
        json!(["cache", "ram", "line"]),
        json!(["cache", "ttl"]),
        json!(["limits", "head"]),
        json!(["limits", "body"]),
        json!(["limits", "new"]),
        json!(["admin", "listen"]),
        json!(["site", 0, "hosts"]),
        json!(["site", 0, "route", 0, "path"]),
        json!(["site", 0, "route", 0, "proxy", "host"]),
        json!(["site", 0, "route", 0, "proxy", "to"]),
        json!(["site", 0, "route", 0, "proxy", "limits", "x"]),
        json!(["site", 0, "route", 1, "cache", "ttl"]),
        json!(["log", "access"]),
        json!(["log", "levels", "disk"]),
    ])
}

fn values() -> impl Strategy<Value = Json> {
    prop_oneof![
        any::<i64>().prop_map(Json::from),
        any::<bool>().prop_map(Json::from),
        "[a-z #\"\\\\\n\u{0}é]{0,8}".prop_map(Json::from),
        proptest::collection::vec("[abx#]{1,2}", 0..4).prop_map(Json::from),
        Just(Json::Null),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever a form does to keys, the text says what was meant, and no comment is lost.
    #[test]
    fn comments_survive_every_edit_of_a_key(edits in proptest::collection::vec((keys(), values()), 1..8)) {
        let mut text = DECORATED.to_owned();
        for (path, value) in edits {
            let was_list = path == json!(["listen"]) && !value.is_array();
            let edit = Edit::read(&json!({ "path": path, "value": value })).unwrap();
            let Ok(next) = apply(&text, &[edit]) else {
                // A value where another edit made a section, or the other way round, and nothing else.
                prop_assert!(!path.as_array().unwrap().is_empty());
                continue;
            };
            // What stands between the brackets of a list goes with the list.
            if was_list {
                text = next;
                continue;
            }
            let lost: Vec<_> = comments(DECORATED).into_iter().filter(|it| comments(&text).contains(it) && !comments(&next).contains(it)).collect();
            prop_assert!(lost.is_empty(), "{} {}: lost {:?} in\n{}", path, value, lost, next);
            text = next;
        }
    }

    /// What was set and is set back is as it was, byte for byte.
    #[test]
    fn an_edit_and_its_undoing_leave_the_text(path in keys(), value in values()) {
        let before = as_json(DECORATED).unwrap();
        let steps = Edit::read(&json!({ "path": path, "value": null })).unwrap().path;
        let old = steps.iter().fold(before, |at, step| match step {
            PathStep::Name(name) => at[name.as_str()].clone(),
            PathStep::At(number) => at[*number].clone(),
        });
        let there_and_back = [json!({ "path": path, "value": value }), json!({ "path": path, "value": old })];
        let edits: Vec<Edit> = there_and_back.iter().map(|it| Edit::read(it).unwrap()).collect();
        let text = apply(DECORATED, &edits).unwrap();
        prop_assert_eq!(pruned(as_json(DECORATED).unwrap()), pruned(as_json(&text).unwrap()));
        // A scalar in its place is the same bytes; what was made anew may stand elsewhere, or leave its section.
        if !value.is_null() && !value.is_array() && !old.is_null() && !old.is_array() {
            prop_assert_eq!(DECORATED, text);
        }
    }

    #[test]
    fn no_text_makes_an_edit_panic(text in "[\\[\\]{}=.,#\"a \n]{0,40}", path in keys(), value in values()) {
        let edit = Edit::read(&json!({ "path": path, "value": value })).unwrap();
        let _ = apply(&text, &[edit]);
    }
}
