//! BER, as much of it as SNMP uses (RFC 3417, section 8): definite lengths, primitive strings, tags of one octet.
//!
//! Every datagram is hostile until it has been read to its end. Nothing here allocates by a length that was received, and
//! no input can make a reader leave the bytes it was given.

/// INTEGER.
pub const INTEGER: u8 = 0x02;
/// OCTET STRING.
pub const OCTETS: u8 = 0x04;
/// NULL.
pub const NULL: u8 = 0x05;
/// OBJECT IDENTIFIER.
pub const OBJECT_IDENTIFIER: u8 = 0x06;
/// SEQUENCE, SEQUENCE OF.
pub const SEQUENCE: u8 = 0x30;

/// Why bytes are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ends in the middle of something.
    #[error("it is cut short")]
    Short,
    /// A length that BER does not have, or SNMP does not allow.
    #[error("a length in it cannot be")]
    Length,
    /// Something else stands where this tag was expected.
    #[error("tag {found:#04x} stands where {expected:#04x} must be")]
    Tag {
        /// The tag that has to be there.
        expected: u8,
        /// The tag that is there.
        found: u8,
    },
    /// A number that does not fit.
    #[error("a number in it is out of range")]
    Number,
    /// An object identifier that is none.
    #[error("an object identifier in it cannot be")]
    Oid,
    /// More bytes than what was read.
    #[error("something follows after its end")]
    Trailing,
    /// More elements than are ever asked for.
    #[error("it has too many elements")]
    TooMany,
}

/// Reads one element after the other. Knows where it is in the datagram, because a message is signed in place.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Reads a datagram from its beginning.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            offset: 0,
        }
    }

    /// Where in the datagram the next element begins, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Is everything read?
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next element: its tag, and a reader of its contents.
    pub fn element(&mut self) -> Result<(u8, Self), Malformed> {
        let (&tag, rest) = self.rest.split_first().ok_or(Malformed::Short)?;
        // SNMP has no tag number above 30.
        if tag & 0x1f == 0x1f {
            return Err(Malformed::Tag {
                expected: SEQUENCE,
                found: tag,
            });
        }
        let (&first, rest) = rest.split_first().ok_or(Malformed::Short)?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // An agent may take more octets than it needs, as Net-SNMP does; but never so many.
            0x81..=0x84 => {
                let octets = usize::from(first & 0x7f);
                let (octets, rest) = rest.split_at_checked(octets).ok_or(Malformed::Short)?;
                let length = octets
                    .iter()
                    .try_fold(0_usize, |length, octet| {
                        length.checked_mul(256)?.checked_add((*octet).into())
                    })
                    .ok_or(Malformed::Length)?;
                (length, rest)
            }
            _ => return Err(Malformed::Length),
        };
        let (contents, rest) = rest.split_at_checked(length).ok_or(Malformed::Short)?;
        let taken = self.rest.len() - rest.len();
        let inner = Self {
            rest: contents,
            offset: self.offset + taken - length,
        };
        self.offset += taken;
        self.rest = rest;
        Ok((tag, inner))
    }

    /// The contents of the next element, which must have this tag.
    pub fn expect(&mut self, expected: u8) -> Result<Self, Malformed> {
        match self.element()? {
            (tag, inner) if tag == expected => Ok(inner),
            (found, _) => Err(Malformed::Tag { expected, found }),
        }
    }

    /// An OCTET STRING.
    pub fn octets(&mut self) -> Result<&'a [u8], Malformed> {
        Ok(self.expect(OCTETS)?.rest)
    }

    /// An INTEGER of 32 bits (SMIv2 has none that is longer).
    pub fn integer(&mut self) -> Result<i32, Malformed> {
        self.expect(INTEGER)?.as_integer()
    }

    /// All the bytes that are left.
    pub fn bytes(&self) -> &'a [u8] {
        self.rest
    }

    /// The bytes that are left, as an INTEGER of 32 bits.
    pub fn as_integer(&self) -> Result<i32, Malformed> {
        match self.rest {
            [] => Err(Malformed::Short),
            [first, ..] if self.rest.len() <= 4 => {
                let sign = if *first & 0x80 == 0 { 0 } else { -1 };
                Ok(self
                    .rest
                    .iter()
                    .fold(sign, |number, octet| number << 8 | i32::from(*octet)))
            }
            _ => Err(Malformed::Number),
        }
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed::Trailing)
        }
    }
}

/// An element with these contents.
pub fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = contents.len();
    let mut bytes = vec![tag];
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => bytes.push(short),
        _ => {
            let octets = length.to_be_bytes();
            let zeros = octets.iter().take_while(|octet| **octet == 0).count();
            let octets = octets.get(zeros..).unwrap_or_default();
            // At most eight octets.
            bytes.push(0x80 | u8::try_from(octets.len()).unwrap_or_default());
            bytes.extend_from_slice(octets);
        }
    }
    bytes.extend_from_slice(contents);
    bytes
}

/// A constructed element with these parts.
pub fn constructed(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    element(tag, &parts.concat())
}

/// An INTEGER in as few octets as it fits.
pub fn integer(number: i32) -> Vec<u8> {
    let octets = number.to_be_bytes();
    let fill = if number < 0 { 0xff } else { 0 };
    let mut short = octets.as_slice();
    while let [first, rest @ ..] = short {
        // A leading octet may go while the sign stays the same.
        let same_sign = rest.first().is_some_and(|next| (next ^ fill) & 0x80 == 0);
        if *first != fill || !same_sign {
            break;
        }
        short = rest;
    }
    element(INTEGER, short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_have_the_octets_of_the_standard() {
        for (number, octets) in [
            (0, &[2, 1, 0][..]),
            (127, &[2, 1, 127]),
            (128, &[2, 2, 0, 128]),
            (256, &[2, 2, 1, 0]),
            (-1, &[2, 1, 0xff]),
            (-128, &[2, 1, 0x80]),
            (-129, &[2, 2, 0xff, 0x7f]),
            (i32::MAX, &[2, 4, 0x7f, 0xff, 0xff, 0xff]),
            (i32::MIN, &[2, 4, 0x80, 0, 0, 0]),
        ] {
            assert_eq!(integer(number), octets, "{number}");
        }
    }

    #[test]
    fn lengths_longer_than_needed_are_read_and_impossible_ones_are_not() {
        assert_eq!(Reader::new(&[4, 0x82, 0, 1, 7]).octets(), Ok(&[7][..]));
        for (bytes, problem) in [
            (&[][..], Malformed::Short),
            (&[4], Malformed::Short),
            (&[4, 2, 7], Malformed::Short),
            (&[4, 0x82, 0], Malformed::Short),
            // Indefinite, and longer than any datagram.
            (&[4, 0x80, 0, 0], Malformed::Length),
            (&[4, 0x85, 0, 0, 0, 0, 1, 7], Malformed::Length),
            (&[4, 0x84, 0xff, 0xff, 0xff, 0xff], Malformed::Short),
        ] {
            assert_eq!(Reader::new(bytes).octets(), Err(problem), "{bytes:?}");
        }
        assert_eq!(Reader::new(&[2, 0]).integer(), Err(Malformed::Short));
        // Another kind of element, and one whose tag has more octets.
        for found in [2, 0x1f, 0x3f] {
            let expected = if found == 2 { OCTETS } else { SEQUENCE };
            let problem = Malformed::Tag { expected, found };
            assert_eq!(Reader::new(&[found, 1, 7]).octets(), Err(problem));
        }
        assert_eq!(
            Reader::new(&[2, 5, 0, 0, 0, 0, 1]).integer(),
            Err(Malformed::Number)
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(number: i32, octets in prop::collection::vec(any::<u8>(), 0..70_000)) {
            let bytes = constructed(SEQUENCE, &[&integer(number), &element(OCTETS, &octets)]);
            let mut reader = Reader::new(&bytes);
            let mut inner = reader.expect(SEQUENCE).unwrap();
            prop_assert_eq!(inner.integer(), Ok(number));
            prop_assert_eq!(inner.octets(), Ok(octets.as_slice()));
            prop_assert_eq!(inner.offset(), bytes.len());
            prop_assert_eq!((inner.end(), reader.end()), (Ok(()), Ok(())));
        }

        #[test]
        fn no_bytes_panic_and_no_element_leaves_them(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut left = vec![Reader::new(&bytes)];
            while let Some(mut reader) = left.pop() {
                while let Ok((_, inner)) = reader.element() {
                    let end = inner.offset() + inner.bytes().len();
                    prop_assert_eq!(bytes.get(inner.offset()..end), Some(inner.bytes()));
                    let _ = inner.as_integer();
                    left.push(inner);
                }
            }
        }
    }
}
