//! Tests of the tags of changed rows, with messages as PostgreSQL writes them.

use super::*;

const INT: u32 = 23;
const TEXT: u32 = 25;
const NUMERIC: u32 = 1700;

/// `orders(id, customer, total)` with the number 7; `identity` has the columns of its replica identity.
fn relation(columns: &[(&str, u32)], identity: &[&str]) -> Vec<u8> {
    let mut out = b"R\0\0\0\x07public\0orders\0d".to_vec();
    out.extend(u16::try_from(columns.len()).unwrap().to_be_bytes());
    for (name, type_number) in columns {
        out.push(u8::from(identity.contains(name)));
        out.extend(name.bytes());
        out.push(0);
        out.extend(type_number.to_be_bytes());
        out.extend([0xff; 4]);
    }
    out
}

const COLUMNS: [(&str, u32); 3] = [("id", INT), ("customer", TEXT), ("total", NUMERIC)];

/// The values of a row: `-` is null, `u` not sent.
fn row(values: &str) -> Vec<u8> {
    let values: Vec<&str> = values.split(' ').collect();
    let mut out = u16::try_from(values.len()).unwrap().to_be_bytes().to_vec();
    for value in values {
        match value {
            "-" => out.push(b'n'),
            "u" => out.push(b'u'),
            text => {
                out.push(b't');
                out.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
                out.extend(text.bytes());
            }
        }
    }
    out
}

fn message(kind: u8, parts: &[(u8, &str)]) -> Vec<u8> {
    let mut out = vec![kind, 0, 0, 0, 7];
    for (mark, values) in parts {
        out.push(*mark);
        out.extend(row(values));
    }
    out
}

fn watched(declarations: &[(&str, ParameterType)]) -> WatchedColumns {
    let mut watched = WatchedColumns::default();
    for (text, kind) in declarations {
        watched.add(&ShownRows::parse(text).unwrap(), *kind);
    }
    watched
}

/// The tags of one change, of a table with this replica identity and the primary key `id`.
#[track_caller]
fn check_with(watched: WatchedColumns, identity: &[&str], change: &[u8], expect: &[&str]) {
    let mut tags = RowTags::new(watched);
    assert_eq!(Ok(Some(7)), tags.read(&relation(&COLUMNS, identity)));
    tags.set_key(7, &["id".to_owned()]);
    for it in [&[b'B'][..], &[0; 20]].concat().chunks(21).chain([change]) {
        assert_eq!(Ok(None), tags.read(it));
    }
    assert_eq!(ChangedRows::default(), tags.take(), "nothing before the transaction is committed");
    assert_eq!(Ok(None), tags.read(&[&[b'C'][..], &[0; 25]].concat()));
    assert_eq!(expect.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>(), tags.take().tags);
}

#[track_caller]
fn check(identity: &[&str], change: &[u8], expect: &[&str]) {
    let of = [("orders.customer = :who", ParameterType::Text), ("orders.id = :id", ParameterType::Int)];
    check_with(watched(&of), identity, change, expect);
}

#[test]
fn rows_by_the_values_before_and_after() {
    let new = ["db:orders", "db:orders:5", "db:orders:id=5", "db:orders:customer=ann"];
    check(&["id"], &message(b'I', &[(b'N', "5 ann 1.00")]), &new);
    check(&["id"], &message(b'I', &[(b'N', "5 - 1.00")]), &["db:orders", "db:orders:5", "db:orders:id=5"]);
    let all = ["id", "customer", "total"];
    let changed = [&new[..], &["db:orders:customer=bob"]].concat();
    check(&all, &message(b'U', &[(b'O', "5 bob 1.00"), (b'N', "5 ann 1.00")]), &changed);
    check(&all, &message(b'D', &[(b'O', "5 ann 1.00")]), &new);
    // A large value that did not change is not in the new row.
    check(&all, &message(b'U', &[(b'O', "5 ann 1.00"), (b'N', "5 u 2.00")]), &new);
}

#[test]
fn a_value_that_is_not_logged_concerns_every_page_by_its_column() {
    let every = ["db:orders", "db:orders:5", "db:orders:id=5", "db:orders:customer="];
    let with_new = [&every[..], &["db:orders:customer=ann"]].concat();
    check(&["id"], &message(b'U', &[(b'N', "5 ann 1.00")]), &with_new);
    check(&["id"], &message(b'U', &[(b'N', "5 u 1.00")]), &every);
    check(&["id"], &message(b'D', &[(b'K', "5 - -")]), &every);
    let moved = [&with_new[..], &["db:orders:4", "db:orders:id=4"]].concat();
    check(&["id"], &message(b'U', &[(b'K', "4 - -"), (b'N', "5 ann 1.00")]), &moved);
    // The identity is another index than the primary key.
    let other = ["db:orders", "db:orders:", "db:orders:id=", "db:orders:customer=ann"];
    check(&["customer"], &message(b'D', &[(b'K', "- ann -")]), &other);
}

#[test]
fn values_whose_text_is_not_their_equality_concern_every_page_by_their_column() {
    let of = [("orders.total = :total", ParameterType::Decimal), ("orders.id = :id", ParameterType::Text)];
    let expect = ["db:orders", "db:orders:5", "db:orders:id=", "db:orders:total="];
    check_with(watched(&of), &["id"], &message(b'I', &[(b'N', "5 ann 1.00")]), &expect);
    // A column that the publication leaves out.
    let of = [("orders.shop = :shop", ParameterType::Int)];
    let expect = ["db:orders", "db:orders:5", "db:orders:shop="];
    check_with(watched(&of), &["id"], &message(b'I', &[(b'N', "5 ann 1.00")]), &expect);
}

#[test]
fn an_empty_value_is_one_value() {
    let mut new = b"I\0\0\0\x07N\0\x03t\0\0\0\x015".to_vec();
    new.extend(b"t\0\0\0\0n");
    check(&["id"], &new, &["db:orders", "db:orders:5", "db:orders:id=5", "db:orders:customer=%"]);
    let page = ShownRows::parse("orders.customer = :who").unwrap().tag(Some(("", ParameterType::Text)));
    assert_eq!("db:orders:customer=%", page);
}

#[test]
fn columns_of_applications_have_the_texts_of_the_database() {
    let mut watched = WatchedColumns::default();
    for text in ["public.orders.customer", "orders.total"] {
        watched.add_column(&TableColumn::parse(text).unwrap());
    }
    let expect = ["db:orders", "db:orders:5", "db:orders:customer=ann", "db:orders:total="];
    check_with(watched, &["id"], &message(b'I', &[(b'N', "5 ann 1.00")]), &expect);
    for wrong in ["", "orders", "a.b.c.d", "orders.", "orders.a = :a", "a b.c"] {
        assert_eq!(None, TableColumn::parse(wrong), "{wrong}");
    }
}

#[test]
fn tags_with_the_name_of_a_database() {
    assert_eq!("db:shop/orders:5", named_tag("db:orders:5", "shop"));
    assert_eq!("db:shop/", rows_of("shop"));
}

#[test]
fn an_emptied_table_concerns_all_its_pages() {
    check(&["id"], b"T\0\0\0\x01\0\0\0\0\x07", &["db:orders", "db:orders:"]);
}

#[test]
fn a_table_without_a_primary_key_has_no_pages_by_key() {
    let mut tags = RowTags::new(WatchedColumns::default());
    tags.read(&relation(&COLUMNS, &[])).unwrap();
    tags.set_key(7, &[]);
    tags.read(&message(b'I', &[(b'N', "5 ann 1.00")])).unwrap();
    tags.read(&[&[b'C'][..], &[0; 25]].concat()).unwrap();
    assert_eq!(["db:orders"], *tags.take().tags.iter().collect::<Vec<_>>());
}

#[test]
fn messages_that_contradict_the_form_are_errors() {
    let mut tags = RowTags::new(WatchedColumns::default());
    assert_eq!(Err(BadChange), tags.read(&message(b'I', &[(b'N', "5 ann 1.00")])), "without a form");
    tags.read(&relation(&COLUMNS, &["id"])).unwrap();
    assert_eq!(Err(BadChange), tags.read(&message(b'I', &[(b'N', "5 ann")])), "of other columns");
}

#[test]
fn a_page_has_the_tag_that_a_change_of_its_row_has() {
    let tag = |text: &str, value: Option<(&str, ParameterType)>| ShownRows::parse(text).unwrap().tag(value);
    let is = |expect: &str, text: &str, value: &str, kind| {
        assert_eq!(expect, tag(text, Some((value, kind))), "{text}")
    };
    is("db:orders", "orders", "", ParameterType::Text);
    is("db:orders", "public.orders", "", ParameterType::Text);
    is("db:shop.orders:id=7", "shop.orders.id = :id", "007", ParameterType::Int);
    is("db:orders:id=-7", "orders.id=:id", "-7", ParameterType::BigInt);
    is("db:orders:customer=a%20b%2C%3A%3D%C3%A9", "orders.customer = :who", "a b,:=é", ParameterType::Text);
    let uuid = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11";
    is(&format!("db:t:u={}", uuid.to_lowercase()), "t.u = :u", uuid, ParameterType::Uuid);
    is("db:t:b=t", "t.b = :b", "TRUE", ParameterType::Bool);
    assert_eq!("db:t", tag("t.id = :id", None), "NULL often means every row");
    for wrong in
        ["", "a b", "a.b.c", "= :id", "t.id = id", "t.id = :", "t = :id", "1t", "t;drop", "t.id = :a.b"]
    {
        assert_eq!(None, ShownRows::parse(wrong), "{wrong}");
    }
}
