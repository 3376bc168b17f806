use super::*;
use proptest::prelude::*;

/// The text with `‹N›` in place of the N-th different placeholder, after it was checked that it goes back to the same bytes.
#[track_caller]
fn shown(text: &str) -> String {
    let (cover, mut known) = (SecretCover::default(), KnownSecrets::default());
    let hidden = cover.hide(text).text;
    cover.learn(text, &mut known);
    assert_eq!(text, known.reveal(&hidden), "there and back");
    assert_eq!(text.matches('\n').count(), hidden.matches('\n').count(), "{hidden}");
    let mut names: Vec<String> = Vec::new();
    let mut out = hidden.clone();
    for it in placeholders(&hidden) {
        let name = hidden[it].to_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.iter().enumerate().for_each(|(at, it)| out = out.replace(it, &format!("‹{}›", at + 1)));
    out
}

#[track_caller]
fn check(text: &str, expect: &str) {
    assert_eq!(expect, shown(text));
}

#[test]
fn literals_of_secret_keys_are_hidden_in_every_notation() {
    check("[site.access.jwt]\nsecret = \"abc\" # why\n", "[site.access.jwt]\nsecret = \"‹1›\" # why\n");
    check(
        "[[site]]\naccess = { jwt = { secret = 'a\"b' }, allow = [\"unix\"] }",
        "[[site]]\naccess = { jwt = { secret = '‹1›' }, allow = [\"unix\"] }",
    );
    check(
        "[[site.route]]\naccess.signed.secret = [\"a\", 'a', \"b\"]",
        "[[site.route]]\naccess.signed.secret = [\"‹1›\", '‹1›', \"‹2›\"]",
    );
    check(
        "site = [{ route = [{ access.jwt.secret = \"a\" }] }]",
        "site = [{ route = [{ access.jwt.secret = \"‹1›\" }] }]",
    );
    check("[block.api.access.jwt]\nsecret = \"a\"", "[block.api.access.jwt]\nsecret = \"‹1›\"");
    check(
        "[block.api.'access'.\"jwt\"]\n\"secr\\u0065t\" = \"a\"",
        "[block.api.'access'.\"jwt\"]\n\"secr\\u0065t\" = \"‹1›\"",
    );
    check(
        "[site.access.jwt]\nsecret = \"\"\"\na\nb\"\"\"\nleeway = \"5s\"",
        "[site.access.jwt]\nsecret = \"\"\"‹1›\n\n\"\"\"\nleeway = \"5s\"",
    );
    check(
        "[site.access.jwt]\nsecret = 12345678\nleeway = 5",
        "[site.access.jwt]\nsecret = \"‹1›\"\nleeway = 5",
    );
    check("\u{feff}[site.access.jwt]\nsecret = \"ü\"\r\n", "\u{feff}[site.access.jwt]\nsecret = \"‹1›\"\r\n");
    let fields = "[site.route.request_headers.set]\nX-Key = \"a{host}\"\n\"X.Y\" = \"{host}\"\n";
    check(fields, &fields.replace("a{host}", "‹1›"));
    let users = "[site.access.basic]\nusers = [\"alice:$2y$05$x\", \"x y:z\"]\nrealm = \"r\"";
    check(users, &users.replace("$2y$05$x", "‹1›").replace("x y:z", "‹2›"));
}

#[test]
fn references_are_shown() {
    for value in ["file:/run/x", "${TOKEN}", "Bearer ${TOKEN}", ""] {
        let text = format!("site.access.jwt.secret = \"{value}\"");
        check(&text, &text);
    }
    for value in ["${TOKEN:-abc}", "a${TOKEN}", "${TOKEN}a", "{host}", "${}", "${a b}"] {
        check(&format!("site.access.jwt.secret = \"{value}\""), "site.access.jwt.secret = \"‹1›\"");
    }
}

#[test]
fn misspelt_keys_may_be_secrets() {
    check(
        "[site.access.jwt]\nsecrt = \"a\"\nleeway = \"5s\"",
        "[site.access.jwt]\nsecrt = \"‹1›\"\nleeway = \"5s\"",
    );
    check(
        "[site.acess.jwt]\nsecret = \"a\"\nsome = 5\nother = true",
        "[site.acess.jwt]\nsecret = \"‹1›\"\nsome = 5\nother = true",
    );
    check("[site.access]\njwt = \"a\"", "[site.access]\njwt = \"‹1›\"");
}

#[test]
fn a_text_that_is_not_toml_shows_no_secret() {
    for broken in [
        "[site.access.jwt]\nsecret = \"SECRET\nleeway = \"5s\"",
        "[site.access.jwt]\nsecret = SECRET\n",
        "[site.access.jwt]\nsecret: \"SECRET\"\n",
        "[site.access.jwt]\nsecret \"SECRET\"\n",
        "[site.access.jwt]\nsecret = \"\nSECRET\n\"\n",
        "[site.access.jwt\nsecret = \"SECRET\"\n",
        "[site.access]\nbasic.users = [\"a:SECRET\", \"b:SECRET\"\nrealm = \"r\"\n",
        "[site.access]\njwt = { secret = \"SECRET\"\n",
        "[site.access]\njwt = { secret = \"SECRET\" x }\n",
        "[site.access.jwt]\nsecret = \"\"\"SECRET\nSECRET\nx = 5\n",
        "secret = = \"SECRET\"\n[site]\nhosts = [\"*\"]\n",
        "[site.access]\njwt = { issuer = [[[[\"a\", secret = 'SECRET' \n",
        "[site.access.jwt]\nissuer = [\"a\"\nsecret = \"SECRET\"\nleeway = \"5s\"\n",
        "[site.access.jwt]\nissuer = [\"a\",\nsecret = \"SECRET\"\n",
        "[site.access]\njwt = { leeway = \"5s\" secret = \"SECRET\" }\n",
        "[site.access]\njwt = { issuer = \"i, secret = \"SECRET\" }\n",
        "[site.access]\njwt = { issuer = \"i, secret = 'SECRET' }\n",
        "[site.access]\nbasic.realm = \"\"\"abc\njwt.secret = 'SECRET'\nsigned.secret = \"SECRET\"\n",
        "[site.access]\nbasic.realm = \"\"\"abc\njwt.secret = 'SECRET'\nsigned.secret = \"\"\"SECRET\"\"\"\n",
        "[site.access]\nbasic.realm = \"\"\"abc\njwt.secret = 'SECRET'\nsigned.secret = \"\"\"\nSECRET\n\"\"\"\n",
    ] {
        let text = shown(broken);
        assert!(!text.contains("SECRET"), "{broken}\n{text}");
    }
    let text = "workers = \n[[site]]\nhosts = [\"a.test\"]\nlisten = \"b\n";
    assert!(shown(text).contains("hosts = [\"a.test\"]"), "{}", shown(text));
}

#[test]
fn placeholders_may_move_and_change_their_quotes() {
    let (cover, mut known) = (SecretCover::default(), KnownSecrets::default());
    let text = "[site.access.jwt]\nsecret = 'a\"b\\c'\n[site.access.signed]\nsecret = \"plain\"";
    cover.learn(text, &mut known);
    let hidden = cover.hide(text).text;
    let names: Vec<&str> = placeholders(&hidden).map(|it| &hidden[it]).collect();
    let check = |text: &str, expect: &str| {
        let fill = |it: &str| it.replace("‹1›", names[0]).replace("‹2›", names[1]);
        assert_eq!(fill(expect), known.reveal(&fill(text)), "{text}");
    };
    check(
        "block.x.access.signed.secret = [\"‹1›\", '‹2›']",
        "block.x.access.signed.secret = [\"a\\\"b\\\\c\", 'plain']",
    );
    check("site.access.basic.users = [\"bob:‹2›\"]", "site.access.basic.users = [\"bob:plain\"]");
    check("site.access.basic.users = [\"bob:‹1›\"]", "site.access.basic.users = [\"bob:a\\\"b\\\\c\"]");
    check("site.route.request_headers.set.X = '''‹2›'''", "site.route.request_headers.set.X = '''plain'''");
    check("site.route.php.env.KEY = '‹2›'", "site.route.php.env.KEY = 'plain'");
    check("site.route.proxy.env = { KEY = '‹2›' }", "site.route.proxy.env = { KEY = 'plain' }");
    // Never at a key that is shown, and not in a comment.
    for text in ["site.hosts = [\"‹2›\"]", "site.route.respond.body = \"‹1›\"", "# ‹2›\nworkers = 1"]
    {
        check(text, text);
    }
    let unknown = "site.access.jwt.secret = \"hidden:0123456789abcdef\"";
    check(unknown, unknown);
    assert_eq!(vec![unknown.find("hidden").unwrap()], left_over(unknown));
    // Nor is one that was damaged, which would be saved as the secret.
    for damaged in ["HIDDEN:0123456789ABCDEF", "hidden:0123", "hidden:0123456789abcdefx"] {
        let text = format!("site.access.jwt.secret = \"{damaged}\"");
        check(&text, &text);
        assert_eq!(1, left_over(&text).len(), "{text}");
    }
    assert_eq!(Vec::<usize>::new(), left_over("# hidden:0123456789abcdef\nsite.hosts = [\"hidden:xyz\"]"));
}

#[test]
fn placeholders_are_of_one_process() {
    let (one, other) = (SecretCover::default(), SecretCover::default());
    assert_eq!(one.hide_value("a"), one.hide_value("a"));
    assert_ne!(one.hide_value("a"), one.hide_value("b"));
    assert_ne!(one.hide_value("a"), other.hide_value("a"));
    assert_eq!("file:a", one.hide_value("file:a"));
}

#[test]
fn columns_are_those_of_the_shown_text() {
    let text =
        "site.access = { jwt = { secret = \"0123456789abcdef0123456789abcdef\" }, x = 1 }\nworkers = 1";
    let hidden = SecretCover::default().hide(text);
    let column = |text: &str, of: &str| u32::try_from(text.find(of).unwrap() + 1).unwrap();
    assert_eq!(column(&hidden.text, "x ="), hidden.column(1, column(text, "x =")));
    assert_eq!(3, hidden.column(1, 3));
    assert_eq!(9, hidden.column(2, 9));
}

proptest! {
    /// Any text comes back unchanged, and its lines stay.
    #[test]
    fn hidden_secrets_are_restored_in_any_text(text in "(\\[site\\.access\\.jwt\\]|secret|workers|users| |=|=|\n|\n|\"|'|\"\"\"|'''|a|ü|\\\\|\\{|\\}|\\[|\\]|,|\\.|#|:|1){0,24}") {
        shown(&text);
    }
}

#[test]
fn passwords_in_urls_are_in_no_message() {
    let check = |text: &str, expect: &str| assert_eq!(expect, without_passwords(text));
    check(
        "found [\"http://u:p@h:80\", \"https://x:a@b@c/d\"]",
        "found [\"http://…@h:80\", \"https://…@c/d\"]",
    );
    check("http://h/a@b", "http://h/a@b");
    check("no URL: a@b", "no URL: a@b");
}

/// Each of these took a time that grew with the square of its length: minutes for these.
#[test]
fn the_time_for_a_long_text_grows_with_its_length() {
    let secret = "access = { token = \"hunter2\" }\n";
    for part in ["[", "{", "=", "\"x\" ", "x\n", "x = \n", "\"x\"\n", "a.b = 1\n"] {
        let text = format!("{}{secret}{}", part.repeat(40_000), part.repeat(40_000));
        let hidden = SecretCover::default().hide(&text).text;
        assert!(!hidden.contains("hunter2"), "{part:?}");
    }
}

#[test]
fn texts_of_conditions_that_may_be_secrets_are_hidden() {
    let site = "[[site.route]]\n";
    check(
        &format!("{site}when = 'path == \"/a\" && header[\"X-Auth\"] in [\"a\", \"b\", \"${{C}}\"]'\n"),
        &format!("{site}when = 'path == \"/a\" && header[\"X-Auth\"] in [\"‹1›\", \"‹2›\", \"${{C}}\"]'\n"),
    );
    check(
        &format!(
            "{site}access = {{ deny_when = \"é == \\u00e9 header.X-Auth != \\\"a\\\\\\\"b\\\" && host == \\\"h\\\"\" }}"
        ),
        &format!(
            "{site}access = {{ deny_when = \"é == \\u00e9 header.X-Auth != \\\"‹1›\\\" && host == \\\"h\\\"\" }}"
        ),
    );
    check(&format!("{site}when = 'header.X-Auth == \"s'"), &format!("{site}when = 'header.X-Auth == \"‹1›'"));
    check(
        &format!("{site}when = \"header.X-Auth == s or host == 'h'\"\n"),
        &format!("{site}when = \"header.X-Auth == ‹1› or host == 'h'\"\n"),
    );
    let shown = format!("{site}when = 'header.Accept == \"hidden:x\"'");
    check(&shown, &shown);
    assert!(left_over(&shown).is_empty());
}

#[test]
fn a_placeholder_in_a_condition_comes_back_where_it_is_hidden_again() {
    let (cover, mut known) = (SecretCover::default(), KnownSecrets::default());
    let text = "[site.access.jwt]\nsecret = \"abc\"\n";
    cover.learn(text, &mut known);
    let hidden = cover.hide(text).text;
    let placeholder = hidden[placeholders(&hidden).next().unwrap()].to_owned();
    let condition = |name: &str, value: &str| format!("[[site.route]]\nwhen = '{name} == \"{value}\"'\n");
    assert_eq!(condition("header.X-Auth", "abc"), known.reveal(&condition("header.X-Auth", &placeholder)));
    let shown = condition("query.page", &placeholder);
    assert_eq!(shown, known.reveal(&shown));
    assert_eq!(1, left_over(&shown).len());
}
