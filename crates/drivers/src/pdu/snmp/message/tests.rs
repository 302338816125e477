use super::*;
use proptest::prelude::*;

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn binding(name: &str, value: Value) -> Binding {
    let name = Oid::parse(name).unwrap();
    Binding { name, value }
}

/// A GET of `sysDescr.0` by community `public`, octet by octet as X.690 and RFC 3416 have it.
#[test]
fn a_question_has_the_octets_of_the_standards() {
    let question = binding("1.3.6.1.2.1.1.1.0", Value::Null);
    let unit = Unit::request(Kind::Get, 0x0102_0304, vec![question]);
    let octets = unhex(
        "30 29 02 01 01 04 06 70 75 62 6c 69 63
         a0 1c 02 04 01 02 03 04 02 01 00 02 01 00
         30 0e 30 0c 06 08 2b 06 01 02 01 01 01 00 05 00",
    );
    assert_eq!(encode_v2c(b"public", &unit), octets);
    assert_eq!(decode_v2c(&octets), Ok((&b"public"[..], unit)));
}

#[test]
fn errors_are_called_as_agents_call_them() {
    assert_eq!(error_name(17), "notWritable");
    assert_eq!(error_name(19), "error 19");
    assert_eq!(error_name(-1), "error -1");
}

#[test]
fn more_bindings_than_are_ever_asked_for_are_refused() {
    let one = binding("1.3.6.1", Value::Integer(1));
    let unit = |count| Unit::request(Kind::Response, 1, vec![one.clone(); count]);
    let read =
        |count| decode_v2c(&encode_v2c(b"", &unit(count))).map(|(_, unit)| unit.bindings.len());
    assert_eq!(read(BINDINGS_MAX), Ok(BINDINGS_MAX));
    assert_eq!(read(BINDINGS_MAX + 1), Err(Malformed::TooMany));
}

#[test]
fn a_message_of_another_version_or_with_a_rest_is_refused() {
    let unit = Unit::request(Kind::Response, 1, Vec::new());
    let mut message = encode_v2c(b"public", &unit);
    message.push(0);
    assert_eq!(decode_v2c(&message), Err(Malformed::Trailing));
    message.pop();
    // Version 1 has the number 0.
    message[4] = 0;
    assert_eq!(decode_v2c(&message), Err(Malformed::Number));
    assert_eq!(V3::decode(&message), Err(Malformed::Number));
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::Integer),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Octets),
        Just(Value::Oid(Oid::parse("1.3.6.1.4.1.318.1.3.4.5").unwrap())),
        Just(Value::NoSuchObject),
        Just(Value::NoSuchInstance),
        Just(Value::Other(0x41)),
    ]
}

fn unit() -> impl Strategy<Value = Unit> {
    let kind = prop_oneof![
        Just(Kind::Get),
        Just(Kind::Set),
        Just(Kind::Response),
        Just(Kind::Report)
    ];
    let bindings = prop::collection::vec(value(), 0..8);
    (kind, any::<i32>(), any::<i32>(), bindings).prop_map(
        |(kind, request_id, error_status, values)| Unit {
            kind,
            request_id,
            error_status,
            error_index: 0,
            bindings: values
                .into_iter()
                .map(|value| binding("1.3.6.1.4.1.318", value))
                .collect(),
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(unit in unit(), community: Vec<u8>, engine in prop::collection::vec(any::<u8>(), 0..33),
        boots in 0..i32::MAX, user: Vec<u8>, private: bool, message_id: i32) {
        let datagram = encode_v2c(&community, &unit);
        prop_assert_eq!(decode_v2c(&datagram), Ok((community.as_slice(), unit.clone())));
        let data = encode_scoped(&engine, &unit);
        let message = V3 {
            message_id, authenticated: true, private, reportable: false, engine_id: &engine, boots, time_seconds: 7,
            user: &user, signature: b"twelve bytes", signature_offset: 0, salt: b"salt", data: &data,
        };
        let datagram = message.encode();
        let read = V3::decode(&datagram).unwrap();
        let place = read.signature_offset..read.signature_offset + read.signature.len();
        prop_assert_eq!(&datagram[place], b"twelve bytes");
        prop_assert_eq!(decode_scoped(read.data), Ok(unit));
        prop_assert_eq!(V3 { signature_offset: 0, ..read }, message);
    }

    /// Most of them are refused at once; so a good message with a few wrong bytes is tried as well, which gets further.
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), unit in unit(),
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut: prop::sample::Index) {
        let data = encode_scoped(b"engine", &unit);
        let v3 = V3 {
            message_id: 1, authenticated: false, private: false, reportable: false, engine_id: b"engine", boots: 1,
            time_seconds: 1, user: b"u", signature: &[0; 12], signature_offset: 0, salt: &[], data: &data,
        };
        for mut datagram in [bytes, encode_v2c(b"public", &unit), v3.encode()] {
            for (at, byte) in &wrong {
                if !datagram.is_empty() {
                    let at = at.index(datagram.len());
                    datagram[at] = *byte;
                }
            }
            for datagram in [&datagram[..], &datagram[..cut.index(datagram.len() + 1)]] {
                let _ = decode_v2c(datagram);
                if let Ok(message) = V3::decode(datagram) {
                    let _ = decode_scoped(message.data);
                }
            }
        }
    }
}

/// RFC 3414, 2.2: an engine's boots and time are no negative numbers, and its name has 32 octets at most.
#[test]
fn an_engine_that_cannot_be_is_refused() {
    let decodes = |engine_octets: usize, boots: i32, time_seconds: i32| {
        let engine_id = vec![7; engine_octets];
        let message = V3 {
            message_id: 1,
            authenticated: false,
            private: false,
            reportable: true,
            engine_id: &engine_id,
            boots,
            time_seconds,
            user: b"fencer",
            signature: &[],
            signature_offset: 0,
            salt: &[],
            data: &ber::constructed(ber::SEQUENCE, &[]),
        };
        V3::decode(&message.encode()).is_ok()
    };
    assert!(decodes(ENGINE_ID_OCTETS_MAX, 0, 0));
    assert!(!decodes(ENGINE_ID_OCTETS_MAX + 1, 0, 0));
    assert!(!decodes(5, -1, 0));
    assert!(!decodes(5, 0, -1));
}
