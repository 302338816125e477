use super::*;
use crate::ipmi::codec::packet::Packet;

fn keys(suite: Suite) -> Keys {
    Keys::new(suite, &[7; 20])
}

/// A datagram with this plain text in place of a message and its fill bytes.
fn with_plain_text(keys: &Keys, plain: &[u8]) -> Vec<u8> {
    let mut bytes = plain.to_vec();
    let mut cipher = cbc::Encryptor::<Aes128>::new((&*keys.cipher).into(), (&[0; 16]).into());
    for block in bytes.as_chunks_mut::<16>().0 {
        cipher.encrypt_block(block.into());
    }
    let encrypted = [&[0; 16][..], &bytes].concat();
    packet::encode_sealed(1, 1, &encrypted, |signed| {
        let mut code = keys.suite.code(&keys.integrity, &[signed]).to_vec();
        code.truncate(keys.suite.integrity_code_bytes());
        code
    })
    .unwrap()
}

fn open(keys: &Keys, datagram: &[u8]) -> Result<Vec<u8>, Malformed> {
    match packet::decode(datagram) {
        Ok(Packet::Sealed(sealed)) => keys.open(&sealed),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_number_of_fill_bytes_counts_and_nothing_else_of_them() {
    let keys = keys(Suite::Sha256);
    let table: [([u8; 16], Option<&[u8]>); 7] = [
        (
            [9, 9, 9, 9, 9, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 7],
            Some(&[9; 8]),
        ),
        (
            [9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 0],
            Some(&[9; 15]),
        ),
        (
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 15],
            Some(&[]),
        ),
        // Out of order, all alike: the code has proven them.
        (
            [9, 9, 9, 9, 9, 9, 9, 9, 1, 2, 3, 4, 5, 7, 6, 7],
            Some(&[9; 8]),
        ),
        (
            [9, 9, 9, 9, 9, 9, 9, 9, 8, 8, 8, 8, 8, 8, 8, 7],
            Some(&[9; 8]),
        ),
        // More than a block.
        (
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
            None,
        ),
        ([0xff; 16], None),
    ];
    for (plain, expected) in table {
        let found = open(&keys, &with_plain_text(&keys, &plain));
        assert_eq!(found.ok().as_deref(), expected, "{plain:?}");
    }
}

#[test]
fn a_payload_that_is_no_whole_number_of_blocks_is_refused() {
    let keys = keys(Suite::Sha1);
    for length in [1, 8, 17, 24, 31] {
        let encrypted = vec![3; length];
        let datagram = packet::encode_sealed(1, 1, &encrypted, |signed| {
            let mut code = keys.suite.code(&keys.integrity, &[signed]).to_vec();
            code.truncate(12);
            code
        });
        assert!(open(&keys, &datagram.unwrap()).is_err(), "{length}");
    }
    // A vector and nothing behind it.
    assert!(open(&keys, &with_plain_text(&keys, &[])).is_err());
}

#[test]
fn other_keys_and_other_suites_do_not_open() {
    let datagram = keys(Suite::Sha256).seal(1, 1, [1; 16], b"message").unwrap();
    assert!(open(&Keys::new(Suite::Sha256, &[8; 20]), &datagram).is_err());
    assert!(open(&keys(Suite::Sha1), &datagram).is_err());
    assert_eq!(open(&keys(Suite::Sha256), &datagram).unwrap(), b"message");
}

#[test]
fn only_suites_that_authenticate_and_encrypt_exist() {
    let usable: Vec<u32> = (0..=255)
        .filter(|number| Suite::from_number(*number).is_some())
        .collect();
    assert_eq!(usable, [3, 17]);
    for suite in [Suite::Sha1, Suite::Sha256] {
        let Algorithms {
            authentication,
            integrity,
            confidentiality,
        } = suite.algorithms();
        assert!(authentication > 0 && integrity > 0 && confidentiality == 1);
        assert_eq!(Suite::from_number(suite.number().into()), Some(suite));
    }
}

/// RFC 2202 and RFC 4231, test case 1 of each.
#[test]
fn codes_are_those_of_the_rfcs() {
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    assert_eq!(
        hex(&Suite::Sha1.code(&[0x0b; 20], &[b"Hi ", b"There"])),
        "b617318655057264e28bc0b6fb378c8ef146be00"
    );
    assert_eq!(
        hex(&Suite::Sha256.code(&[0x0b; 20], &[b"Hi ", b"There"])),
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    );
}

#[test]
fn a_code_of_another_length_is_wrong() {
    let code = Suite::Sha256.code(b"key", &[b"data"]);
    let verify = |found: &[u8]| Suite::Sha256.verify(b"key", &[b"data"], found, 16);
    assert!(verify(&code[..16]));
    for length in (0..16).chain(17..=32) {
        assert!(!verify(&code[..length]), "{length}");
    }
}

#[test]
fn keys_are_not_shown() {
    let shown = format!("{:?}", keys(Suite::Sha256));
    assert!(
        !shown
            .chars()
            .any(|sign| sign.is_ascii_digit() && sign != '2' && sign != '5' && sign != '6'),
        "{shown}"
    );
}

/// §13.29: a whole block of fill bytes would be none that is needed.
#[test]
fn a_whole_block_of_fill_bytes_is_refused() {
    let keys = keys(Suite::Sha256);
    let filled = |count: u8| {
        let mut plain = vec![9; 31 - usize::from(count)];
        plain.extend(1..=count);
        plain.push(count);
        open(&keys, &with_plain_text(&keys, &plain))
    };
    assert_eq!(filled(15), Ok(vec![9; 16]));
    assert!(filled(16).is_err());
}
