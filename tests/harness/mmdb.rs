//! Databases in the MaxMind format, made of a list of networks: no test depends on data of a vendor.

use std::net::IpAddr;

/// One record of a node of the search tree.
#[derive(Clone, Copy)]
enum Record {
    Nothing,
    Node(usize),
    Data(usize),
}

/// A value of the format.
pub enum MmdbValue<'a> {
    Text(&'a str),
    Number(u32),
    Map(Vec<(&'a str, MmdbValue<'a>)>),
}

impl MmdbValue<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => write_text(text, out),
            Self::Number(number) => {
                out.push(6 << 5 | 4);
                out.extend(number.to_be_bytes());
            }
            Self::Map(rows) => {
                out.push(7 << 5 | u8::try_from(rows.len()).unwrap());
                for (name, value) in rows {
                    write_text(name, out);
                    value.write(out);
                }
            }
        }
    }
}

/// The record of a country, as MaxMind writes it, behind a field that a reader has to skip.
pub fn country(code: &str) -> MmdbValue<'_> {
    let continent = MmdbValue::Map(vec![("code", MmdbValue::Text("XX"))]);
    let country =
        MmdbValue::Map(vec![("geoname_id", MmdbValue::Number(7)), ("iso_code", MmdbValue::Text(code))]);
    MmdbValue::Map(vec![("continent", continent), ("country", country)])
}

/// The record of an autonomous system, as MaxMind writes it.
pub fn asn(number: u32) -> MmdbValue<'static> {
    MmdbValue::Map(vec![("autonomous_system_number", MmdbValue::Number(number))])
}

/// The bytes of a database with these networks, `ADDR/BITS`; a later one replaces the part of an earlier one.
pub fn database(rows: &[(&str, MmdbValue<'_>)]) -> Vec<u8> {
    let (mut nodes, mut data) = (vec![[Record::Nothing; 2]], Vec::new());
    for (network, value) in rows {
        let at = data.len();
        value.write(&mut data);
        insert(&mut nodes, network, at);
    }
    let count = nodes.len();
    let mut out = Vec::new();
    for record in nodes.iter().flatten() {
        let number = match record {
            Record::Nothing => count,
            Record::Node(it) => *it,
            Record::Data(it) => count + 16 + it,
        };
        out.extend(&u32::try_from(number).unwrap().to_be_bytes()[1..]);
    }
    out.extend([0; 16]);
    out.extend(data);
    out.extend(b"\xab\xcd\xefMaxMind.com");
    write_metadata(count, &mut out);
    out
}

fn insert(nodes: &mut Vec<[Record; 2]>, network: &str, data: usize) {
    let (address, bits) = network.split_once('/').unwrap();
    let bits: usize = bits.parse().unwrap();
    let (address, bits) = match address.parse().unwrap() {
        IpAddr::V4(it) => (u128::from(it.to_bits()), bits + 96),
        IpAddr::V6(it) => (it.to_bits(), bits),
    };
    let mut at = 0;
    for depth in 0..bits {
        let bit = usize::from(address >> (127 - depth) & 1 == 1);
        if depth + 1 == bits {
            nodes[at][bit] = Record::Data(data);
            return;
        }
        at = match nodes[at][bit] {
            Record::Node(next) => next,
            // A wider network continues in both halves.
            wider => {
                nodes.push([wider; 2]);
                nodes[at][bit] = Record::Node(nodes.len() - 1);
                nodes.len() - 1
            }
        };
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    let length = u8::try_from(text.len()).ok().filter(|it| *it < 29).expect("short texts");
    out.push(2 << 5 | length);
    out.extend(text.as_bytes());
}

fn write_metadata(nodes: usize, out: &mut Vec<u8>) {
    let short = |name: &str, number: u16, out: &mut Vec<u8>| {
        write_text(name, out);
        out.push(5 << 5 | 2);
        out.extend(number.to_be_bytes());
    };
    out.push(7 << 5 | 9);
    short("binary_format_major_version", 2, out);
    short("binary_format_minor_version", 0, out);
    short("ip_version", 6, out);
    short("record_size", 24, out);
    write_text("node_count", out);
    MmdbValue::Number(u32::try_from(nodes).unwrap()).write(out);
    write_text("build_epoch", out);
    out.extend([8, 2]); // An extended type: 64 bits.
    out.extend(1_700_000_000_u64.to_be_bytes());
    write_text("database_type", out);
    write_text("Made-For-Tests", out);
    write_text("description", out);
    out.push(7 << 5);
    write_text("languages", out);
    out.extend([0, 4]); // An extended type: an empty list.
}
