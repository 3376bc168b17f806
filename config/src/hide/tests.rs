use super::*;
use crate::key_path::dotted;
use crate::table;
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
fn the_value_of_a_misspelt_key_is_shown_unless_it_may_be_a_secret() {
    for shown in [
        "[cache]\ndefault_tll = \"5s\"",
        "lisen = [\"0.0.0.0:80\"]\nfoo = 1073741824",
        "[[site]]\nhosst = [\"a.test\"]\n[[site.route]]\npth = \"/a\"\ndeadline = 2026-01-01",
        "[site.route.proxy]\nconect_timeout = \"5s\"",
        "[site.acess.jwt]\nisuer = \"https://id.test\"\nleeway = \"5s\"",
        "[block.a.cahe]\ndefault_ttl = \"5s\"",
        "[cache]\ndisc = { path = \"/var/x\" }",
    ] {
        check(shown, shown);
    }
}

#[test]
fn the_value_of_an_unknown_key_that_may_be_a_secret_is_hidden() {
    let all = [
        "[admin]\npasword = \"SECRET\"",
        "[admin]\ntoken = \"SECRET\"",
        "pasword = \"SECRET\"",
        "[[database]]\npasswort = \"SECRET\"\npw = \"SECRET\"",
        "[[database]]\nfoo = \"SECRET\"",
        "[site.acess]\nbasci = { usres = [\"a:SECRET\"] }",
        "[[site.route]]\nproxy_set_header = \"X-A SECRET\"\nx_key = \"SECRET\"",
        "[[site.route]]\nrequest_heders = { set = { X = \"SECRET\" } }",
        "[[site.route]]\nrequest_headers = { X = \"SECRET\", sett = { Y = \"SECRET\" } }",
        "[[site.route]]\nenvironment = { DB = \"SECRET\" }\nphp.evn.X = \"SECRET\"",
        "[[site.route]]\nwhn = 'header.X-Auth == \"SECRET\"'\nfoo = 'cookie.token == \"SECRET\"'",
        "[[site.route]]\nbackends = [\"http://u:SECRET@h\"]\nfoo = \"Bearer SECRET\"",
        "[site.route.php.env\nDB = \"SECRET\"",
        // Misspelt names, in every notation.
        "[site.access.jwt]\nsceret = \"SECRET\"",
        "[site.acess.jwt]\nsecrt = \"SECRET\"",
        "[site.acess.jtw]\nsecret = \"SECRET\"",
        "[sit.acess.jtw]\nsecrte = \"SECRET\"",
        "[site.acess]\njwt = \"SECRET\"",
        "[site.acess]\nsigned.secert = [\"SECRET\"]",
        "[site.access.singed]\nsecrets = [\"SECRET\", \"SECRET\"]",
        "[site.access]\nsinged = { secret = \"SECRET\" }",
        "[[site.route]]\nacces.jwt.secret = \"SECRET\"",
        "site = [{ route = [{ acess = { jwt = { secret = \"SECRET\" } } }] }]",
        "[block.a.acess.jwt]\nsecret = \"SECRET\"",
        "[blok.a.access.jwt]\nsecret = \"SECRET\"",
        "[site.access.basci]\nusers = [\"a:SECRET\"]",
        "[site.access.basic]\nuser = [\"a:SECRET\"]",
        "[site.access.basic]\nfoo = \"SECRET\"",
        "[cache]\ndefault_tll = { password = \"SECRET\" }",
        "dbpass = \"SECRET\"\ndb_pasword = \"SECRET\"\nmy-tokn = \"SECRET\"\napikey = \"SECRET\"",
        "[admin]\ntokne = \"SECRET\"\npasswd = \"SECRET\"",
        "[secrets]\na = \"SECRET\"",
        "[cache]\nmemcached_pasword = \"SECRET\"",
        // Maps.
        "[site.route.request_header.set]\nX = \"SECRET\"",
        "[site.route.php.enviroment]\nX = \"SECRET\"",
        "[site.route.cgi]\nevn = { X = \"SECRET\" }",
        "[site.route.proxi.env]\nX = \"SECRET\"",
        // Keys of other servers.
        "[[site.route]]\nfastcgi_param = \"X SECRET\"\nheader_up = \"X SECRET\"",
        "[[site.route]]\nbasic_auth = \"SECRET\"\nauth_basic_user_file = \"SECRET\"",
        // Values.
        "foo = \"postgres://u:SECRET@h/d\"\nbar = [\"a\", \"https://SECRET@h\"]",
        "foo = \"http:\\u002f/u:SECRET@h\"",
        "foo = \"bearer SECRET\"\nbar = 'Basic SECRET'",
        "foo = \"\"\"\n-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\"\"\"",
        "foo = \"host=h password=SECRET\"\nbar = \"https://h/?access_token=SECRET\"",
        "foo = \"X-Api-Key: SECRET\"\nbar = \"a:$2y$05$SECRET\"",
    ];
    let shown: Vec<String> =
        all.map(|it| std::panic::catch_unwind(|| shown(it)).unwrap_or_else(|_| "SECRET".to_owned())).into();
    let wrong: Vec<_> = all.iter().zip(&shown).filter(|it| it.1.contains("SECRET")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_hidden_value_of_an_unknown_key_comes_back_at_keys_of_secrets_alone() {
    let mut wrong = Vec::new();
    for (old, from, to, goes) in [
        ("[[database]]\npasword = \"VALUE\"", "pasword", "password", true),
        ("[site.access.jwt]\nsecrt = 'VALUE'", "secrt", "secret", true),
        ("[site.acess.jwt]\nsecret = 'VALUE'", "acess", "access", true),
        ("[site.access.jwt]\nfrom = \"VALUE\"", "from", "issuer", false),
        ("[site.access.jwt]\nsecrt = \"VALUE\"", "secrt", "issuer", false),
        ("[site.access.jwt]\nsecrt = \"VALUE\"", "secrt", "isuer", false),
        ("[site.access.jwt]\nisuer = \"https://u:VALUE@h\"", "isuer", "issuer", false),
        (
            "[site.access.jwt]\nfrom = \"VALUE\"",
            "[site.access.jwt]\nfrom",
            "[[site.route]]\nrespond.body",
            false,
        ),
        ("[site.access.jwt]\nfrom = \"VALUE\"", "[site.access.jwt]\nfrom", "[cache]\ndefault_tll", false),
    ] {
        let (cover, mut known) = (SecretCover::default(), KnownSecrets::default());
        cover.learn(old, &mut known);
        let hidden = cover.hide(old).text;
        let renamed = hidden.replacen(from, to, 1);
        let expect = if goes { old.replacen(from, to, 1) } else { renamed.clone() };
        if hidden.contains("VALUE") || known.reveal(&renamed) != expect {
            wrong.push((old, to, known.reveal(&renamed)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
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
    check(
        "site.route.request_headers.set.X-Key = '''‹2›'''",
        "site.route.request_headers.set.X-Key = '''plain'''",
    );
    check("site.route.php.env.KEY = '‹2›'", "site.route.php.env.KEY = 'plain'");
    check("site.route.proxy.env = { KEY = '‹2›' }", "site.route.proxy.env = { KEY = 'plain' }");
    // Never at a key that is shown, and not in a comment.
    for text in [
        "site.hosts = [\"‹2›\"]",
        "site.route.respond.body = \"‹1›\"",
        "# ‹2›\nworkers = 1",
        "site.route.request_headers.set.X = '‹2›'",
        "site.route.php.env = { LANG = \"‹2›\" }",
    ] {
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

/// A field that is not for secrets, and a variable that is not, with values that operators have to read and correct.
#[test]
fn ordinary_values_of_fields_and_variables_are_shown() {
    for fields in
        ["site.route.request_headers.set", "block.a.request_headers.set", "site.request_headers.set"]
    {
        for shown in [
            "Accept-Language = \"de\"",
            "X-Forwarded-Proto = \"https\"",
            "User-Agent = 'larder (https://example.test/about-us)'",
            "Host = \"shop.internal.example.com:8080\"",
            "X-Real-IP = \"{client}\"",
            "X-Environment = \"production-2026-11-29\"",
            "\"X.Y\" = \"v1.{host}\"",
        ] {
            let text = format!("[{fields}]\n{shown}\n");
            check(&text, &text);
        }
    }
    let query = "[[site.route]]\nquery.set = { format = \"VALUE\" }\n";
    assert!(!shown(query).contains("VALUE"), "a parameter is a key under any name");
    for table in ["cgi", "php", "proxy"] {
        for shown in [
            "REPORT_DB = \"/var/lib/reports/report.db\"",
            "LANG = 'de_DE.UTF-8'",
            "DJANGO_SETTINGS_MODULE = \"shop.settings\"",
            "DATABASE_URL = \"postgres://db.internal/shop\"",
            "APP_ENV = \"production\"",
        ] {
            let text = format!("[[site.route]]\n{table}.env = {{ {shown} }}\n");
            check(&text, &text);
        }
    }
}

/// The other half of the rule: the name, in any spelling, or the value itself.
#[test]
fn secrets_of_fields_and_variables_are_hidden_by_their_names_or_values() {
    let names = "Authorization authorization AUTHORIZATION Proxy-Authorization proxy_authorization Cookie cookie Set-Cookie COOKIE2 \
                 X-Api-Key x_api_key XApiKey X-APIKEY X-Auth-Token X-Auth X-Amz-Security-Token X-Shared-Secret X-SECRET-9 X-CDN-Key \
                 X-Origin-Verify X-Hub-Signature X-Session X-Csrf X-JWT DPoP X-Pass X-Pwd X-Otp Autorization X-Tokn \
                 DB_PASSWORD DB_PASS DBPASS dbPw MYSQL_PWD PGPASSWORD PASSWD passwort PASSPHRASE API_KEY apikey AWS_SECRET_ACCESS_KEY \
                 AWS_ACCESS_KEY_ID SECRET_KEY_BASE secretKeyBase GITHUB_TOKEN githubToken GITHUB_PAT STRIPE_SK SENTRY_DSN AUTH_SALT \
                 PRIVATE_PEM HMAC CREDENTIALS BEARER SLACK_WEBHOOK LICENSE ENCRYPTION_SEED PIN ACTIVATION_CODE";
    let values = [
        "Bearer abc",
        "basic abc",
        "postgres://u:SECRET@h/d",
        "9f86d081884c7d65",
        "v 9f86d081884c7d659a2feaa0c55ad015",
        "key-0123456789abcdef0123456789abcdef-plain",
        "9f86d081/884c7d659a2feaa0c5+5ad01==",
        "123e4567-e89b-12d3-a456-426614174000",
        "aZ3kP9qLx2Vb7NcT5mWd8RfG",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP",
        "host=h password=x",
        "https://h.test/?access_token=x",
        "https://h.test/reset/4f8a91c2d7e6b305",
        "-----BEGIN PRIVATE KEY-----",
    ];
    let (names, mut wrong): (Vec<&str>, Vec<String>) = (names.split_whitespace().collect(), Vec::new());
    let names = names.into_iter().map(|it| (it, "VALUE"));
    for (name, value) in names.chain(values.map(|it| ("Accept-Language", it))) {
        for text in [
            format!("[site.route.request_headers.set]\n{name} = \"{value}\"\n"),
            format!("[[site]]\nroute = [{{ request_headers = {{ set = {{ \"{name}\" = '{value}' }} }} }}]\n"),
            format!("[block.a]\ncgi.env.{name} = \"{value}\"\nquery.set.{name} = '{value}'\n"),
            format!(
                "[[site.route]]\nproxy.env = {{ {name} = \"\"\"{value}\"\"\" }}\nphp.env.'{name}' = '{value}'\n"
            ),
        ] {
            if shown(&text).contains(value) {
                wrong.push(text);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Every key of the table whose form is that of a secret, in a section and in a block.
#[test]
fn every_key_of_secrets_is_hidden() {
    let secret = |it: &String| table::find(it).is_some_and(|it| it.kind.is_secret());
    let patterns: Vec<String> = table::patterns().filter(secret).collect();
    assert!(patterns.len() >= 10, "{patterns:?}");
    for pattern in patterns {
        let is_pairs = table::find(&pattern).is_some_and(|it| matches!(it.kind, ValueKind::Pairs { .. }));
        let path = dotted(&pattern);
        for value in
            ["\"VALUE\"", "'VALUE'", "[\"VALUE\"]", "{ Authorization = \"VALUE\", DB_PASSWORD = 'VALUE' }"]
        {
            if is_pairs && !value.starts_with('{') {
                continue;
            }
            let text = format!("{path} = {value}\n");
            assert!(!shown(&text).contains("VALUE"), "{text}");
        }
    }
}

/// A placeholder never turns into its secret where a reader would see that.
#[test]
fn a_secret_does_not_come_back_under_a_name_whose_value_is_shown() {
    let (cover, mut known) = (SecretCover::default(), KnownSecrets::default());
    let old = "[site.route.request_headers.set]\nX-Api-Key = \"VALUE\"\nX-Plain = \"9f86d081884c7d65\"\n";
    cover.learn(old, &mut known);
    let hidden = cover.hide(old).text;
    for (from, to, goes) in [
        ("X-Api-Key", "X-Other-Key", true),
        ("X-Api-Key", "Accept-Language", false),
        ("X-Plain", "X-Other", true),
        ("X-Plain", "X-Api-Token", true),
    ] {
        let renamed = hidden.replacen(from, to, 1);
        let back = known.reveal(&renamed);
        let secret = if from == "X-Plain" { "9f86d081884c7d65" } else { "VALUE" };
        assert_eq!(goes, back.contains(secret), "{from} {to}: {back}");
        assert!(!cover.hide(&back).text.contains(secret), "{from} {to}: {back}");
        assert_eq!(usize::from(!goes), left_over(&back).len(), "{from} {to}: {back}");
    }
}

/// A file that an operator broke by hand is corrected on the page, where all its fields are hidden.
#[test]
fn an_ordinary_value_of_a_broken_text_comes_back_in_the_corrected_one() {
    let broken = "[site.route.request_headers.set]\nAccept-Language = \"de\"\nX-Api-Key = \"VALUE\"\n[site\n";
    let (cover, mut known) = (SecretCover::default(), KnownSecrets::default());
    cover.learn(broken, &mut known);
    let hidden = cover.hide(broken).text;
    assert!(!hidden.contains("VALUE") && !hidden.contains("\"de\""), "{hidden}");
    let lines = |text: &str| text.split_inclusive('\n').take(3).collect::<String>();
    assert_eq!(lines(broken), known.reveal(&lines(&hidden)));
    let moved = known.reveal(&lines(&hidden).replace("X-Api-Key", "X-Plain"));
    assert!(!moved.contains("VALUE"), "{moved}");
}

#[test]
fn viewers_see_no_value_of_a_field_or_a_variable() {
    let text = "[site.route.request_headers.set]\nX-Foo = \"hunter2\"\n[site.route.cgi.env]\nLANG = 'de'\nHOME = \"${HOME}\"\n";
    let cover = SecretCover::default();
    assert_eq!(text, cover.hide(text).text);
    let shown = cover.for_viewers().hide(text).text;
    assert!(!shown.contains("hunter2") && !shown.contains("'de'") && shown.contains("${HOME}"), "{shown}");
}
