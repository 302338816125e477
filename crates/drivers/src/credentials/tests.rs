use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

type Data = BTreeMap<String, Vec<u8>>;

fn secret(username: &[u8], password: &[u8]) -> Data {
    BTreeMap::from([
        ("username".to_owned(), username.to_vec()),
        ("password".to_owned(), password.to_vec()),
    ])
}

fn read(data: &Data) -> Result<Credentials, CredentialsError> {
    Credentials::from_secret("bmc-worker-3", data, &BTreeMap::new())
}

fn allowing(hosts: &str) -> Result<Credentials, CredentialsError> {
    let annotations = BTreeMap::from([(ALLOWED_HOSTS_ANNOTATION.to_owned(), hosts.to_owned())]);
    Credentials::from_secret("bmc-worker-3", &secret(b"admin", b"hunter2"), &annotations)
}

#[test]
fn what_a_device_repeats_of_its_credentials_is_hidden() {
    let credentials = read(&secret(b"admin", b"s3cret \\ \"x\"")).unwrap();
    let token = STANDARD.encode("admin:s3cret \\ \"x\"");
    for (text, shown) in [
        (
            "user admin, s3cret \\ \"x\"!".to_owned(),
            "user admin, ***!",
        ),
        (
            format!("Authorization: Basic {token}"),
            "Authorization: Basic ***",
        ),
        // In JSON, and cut off at the end or before a word.
        (r#"{"a":"s3cret \\ \"x\""}"#.to_owned(), r#"{"a":"***"}"#),
        ("Model s3cret…".to_owned(), "Model ***"),
        ("no s3cret \\ \"… there".to_owned(), "no *** there"),
        (format!("Basic {}…", &token[..9]), "Basic ***"),
        ("s3cre…".to_owned(), "s3cre…"),
        ("nothing of it".to_owned(), "nothing of it"),
    ] {
        assert_eq!(credentials.without_secrets(&text), shown);
    }
    // One that stands in other words by chance is left.
    let short = read(&secret(b"admin", b"Model")).unwrap();
    assert_eq!(short.without_secrets("Model 5"), "Model 5");
}

#[test]
fn a_good_secret_becomes_a_header() {
    let header = read(&secret(b"admin", "hünter:2".as_bytes()))
        .unwrap()
        .basic()
        .unwrap();
    assert!(header.is_sensitive());
    assert_eq!(
        STANDARD.decode(&header.as_bytes()[6..]).unwrap(),
        "admin:hünter:2".as_bytes()
    );
}

/// Whoever may read a status may not read the Secret.
#[test]
fn a_missing_key_is_named_and_those_that_are_there_are_not() {
    let data = BTreeMap::from([
        ("user".to_owned(), b"admin".to_vec()),
        ("username".to_owned(), b"admin".to_vec()),
    ]);
    assert_eq!(
        read(&data).unwrap_err().to_string(),
        "Secret `bmc-worker-3` has no key `password`; add it"
    );
}

#[test]
fn one_trailing_newline_is_left_away_and_reported() {
    for password in ["hunter2\n", "hunter2\r\n"] {
        let credentials = read(&secret(b"admin", password.as_bytes())).unwrap();
        assert_eq!(credentials.trimmed_keys(), ["password"]);
        assert_eq!(credentials.value("password"), "hunter2");
    }
    assert!(
        read(&secret(b"admin", b"hunter2"))
            .unwrap()
            .trimmed_keys()
            .is_empty()
    );
    // Spaces may belong to a password.
    assert_eq!(
        read(&secret(b"admin", b" hunter2 "))
            .unwrap()
            .value("password"),
        " hunter2 "
    );
}

#[test]
fn a_value_that_cannot_be_used_is_refused_without_being_shown() {
    for (password, expected) in [
        (b"".as_slice(), "empty or white space"),
        (b" \t", "empty or white space"),
        (b"\n", "empty or white space"),
        (b"\xffhunter2", "not UTF-8"),
        (b"hunter2\0", "holds a NUL"),
        (b"hunter2\rx", "carriage return"),
        (b"hunter2\nx", "line feed"),
        (b"hunter2\n\n", "line feed"),
        (&[b'x'; 4097], "4097 bytes, and 4096 are allowed"),
    ] {
        let error = read(&secret(b"admin", password)).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("Secret `bmc-worker-3`, key `password`") && message.contains(expected),
            "{message}"
        );
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
    assert!(read(&secret(b"admin", &[b'x'; 4096])).is_ok());
}

#[test]
fn a_user_with_a_colon_is_refused_for_basic_authentication() {
    let message = read(&secret(b"ad:min", b"hunter2"))
        .unwrap()
        .basic()
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("key `username`: it holds a colon") && !message.contains("hunter2"),
        "{message}"
    );
}

#[test]
fn the_annotation_bounds_where_the_values_go() {
    let credentials = allowing("bmc-3.example, *.mgmt.example,10.20.0.0/16 ,2001:db8::7,").unwrap();
    let outside: IpAddr = "192.0.2.1".parse().unwrap();
    for (host, address, expected) in [
        ("bmc-3.example", "192.0.2.1", true),
        ("BMC-3.EXAMPLE", "192.0.2.1", true),
        ("x.bmc-3.example", "192.0.2.1", false),
        ("a.b.mgmt.example", "192.0.2.1", true),
        ("mgmt.example", "192.0.2.1", false),
        ("evilmgmt.example", "192.0.2.1", false),
        ("other", "10.20.255.1", true),
        ("10.21.0.1", "10.21.0.1", false),
        ("2001:db8::7", "2001:db8::7", true),
        ("2001:db8::8", "2001:db8::8", false),
    ] {
        assert_eq!(
            credentials
                .judge_host(host, address.parse().unwrap())
                .is_ok(),
            expected,
            "{host} {address}"
        );
    }
    for entry in [
        "::ffff:10.0.0.9",
        "::ffff:10.0.0.9/128",
        "::ffff:10.0.0.0/104",
        "10.0.0.9",
    ] {
        let credentials = allowing(entry).unwrap();
        for (address, expected) in [
            ("10.0.0.9", true),
            ("::ffff:10.0.0.9", true),
            ("11.0.0.9", false),
            ("::a00:9", false),
        ] {
            let judged = credentials.judge_host("bmc", address.parse().unwrap());
            assert_eq!(judged.is_ok(), expected, "{entry} {address}");
        }
    }
    let message = credentials
        .judge_host("bmc-4.example", outside)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("may not be sent to bmc-4.example"),
        "{message}"
    );
    assert!(
        allowing("").unwrap().judge_host("bmc", outside).is_err(),
        "an empty list allows nothing"
    );
    assert!(
        read(&secret(b"a", b"b"))
            .unwrap()
            .judge_host("bmc", outside)
            .is_ok(),
        "no annotation, no bound"
    );
}

#[test]
fn an_unreadable_entry_of_the_annotation_is_an_error() {
    for entry in [
        "10.20.0.0/33",
        "10.20.0.13/16",
        "https://bmc",
        "*",
        "*.",
        "bmc example",
        "a*.example",
    ] {
        assert!(
            matches!(
                allowing(&format!("bmc, {entry}")),
                Err(CredentialsError::Annotation { .. })
            ),
            "{entry}"
        );
    }
}

#[test]
fn debug_shows_the_name_only() {
    assert_eq!(
        format!("{:?}", allowing("bmc").unwrap()),
        r#"Credentials { secret: "bmc-worker-3", .. }"#
    );
}

mod properties {
    use super::*;
    use fencing_core::fixtures::cases;

    proptest! {
        #![proptest_config(cases())]

        #[test]
        fn no_bytes_panic_and_every_header_decodes_to_its_pair(username: Vec<u8>, password: Vec<u8>) {
            if let Ok(credentials) = read(&secret(&username, &password))
                && let Ok(header) = credentials.basic()
            {
                let pair = format!("{}:{}", credentials.value("username"), credentials.value("password"));
                prop_assert_eq!(STANDARD.decode(&header.as_bytes()[6..]).unwrap(), pair.as_bytes());
            }
        }

        #[test]
        fn no_annotation_panics(hosts in ".{0,64}") {
            let _ = allowing(&hosts);
        }
    }
}

/// IPMI 2.0 has room for 16 and 20 bytes, and a BMC that was given more keeps an unknown part of it.
#[test]
fn a_login_for_ipmi_is_as_long_as_it_may_be_and_never_cut() {
    let fits = |user: usize, password: usize| {
        let credentials = read(&secret(&vec![b'u'; user], &vec![b'p'; password])).unwrap();
        let login = credentials.ipmi();
        login.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(fits(16, 20), Ok(()));
    for (user, password, key) in [(17, 20, "16 bytes, was 17"), (16, 21, "20 bytes, was 21")] {
        let words = fits(user, password).expect_err("too long");
        assert!(words.contains(key), "{words}");
    }
}
