//! The external data representation (RFC 4506), as far as libvirt's replies need it: everything in units of four bytes, the highest first.
//!
//! A reader borrows what it reads, so that no length in a packet takes memory, and never looks beyond the packet's end.

/// Most entries of a list. A list of domains in the longest packet that is read has fewer.
const LIST_MAX: u32 = 8192;

/// What is left of a packet.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// All of these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next bytes, as many as that.
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("it is too short")?;
        self.0 = rest;
        Ok(taken)
    }

    /// A fixed number of bytes; a multiple of four.
    ///
    /// # Errors
    /// There are fewer.
    pub fn bytes<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| "it is too short".to_owned())
    }

    /// `unsigned int`.
    ///
    /// # Errors
    /// The packet has ended.
    pub fn unsigned(&mut self) -> Result<u32, String> {
        self.bytes().map(u32::from_be_bytes)
    }

    /// `int`, and every enumeration.
    ///
    /// # Errors
    /// The packet has ended.
    pub fn int(&mut self) -> Result<i32, String> {
        self.bytes().map(i32::from_be_bytes)
    }

    /// A number that says yes or no.
    ///
    /// # Errors
    /// It is another one.
    pub fn flag(&mut self) -> Result<bool, String> {
        match self.unsigned()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("{other} stands where 0 or 1 has to")),
        }
    }

    /// `string<>`: its length, its bytes, and as many zeros as fill the last unit.
    ///
    /// # Errors
    /// It is longer than the packet.
    pub fn text(&mut self) -> Result<String, String> {
        let length = usize::try_from(self.unsigned()?).unwrap_or(usize::MAX);
        let text = self.take(length)?;
        self.take(length.wrapping_neg() % 4)?;
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// `T *`: whether it is there, and then it.
    ///
    /// # Errors
    /// Those of what is there.
    pub fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        match self.flag()? {
            true => read(self).map(Some),
            false => Ok(None),
        }
    }

    /// `T<>`: how many there are, and each of them.
    ///
    /// # Errors
    /// There are too many, or those of one.
    pub fn list<T>(
        &mut self,
        read: impl Fn(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        match self.unsigned()? {
            count if count > LIST_MAX => Err(format!("a list of {count}")),
            // It grows as its entries are read: a length alone takes no memory.
            count => (0..count).map(|_| read(self)).collect(),
        }
    }

    /// Nothing is left.
    ///
    /// # Errors
    /// Something is.
    pub fn end(self) -> Result<(), String> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(format!("{left} bytes are left over")),
        }
    }
}

/// A packet that grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// `unsigned int`.
    #[must_use]
    pub fn unsigned(mut self, number: u32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    /// `int`.
    #[must_use]
    pub fn int(mut self, number: i32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    /// Bytes as they are.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    /// `string<>`.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let mut written = self.unsigned(length).bytes(text.as_bytes());
        written.0.resize(written.0.len().next_multiple_of(4), 0);
        written
    }

    /// What was written.
    #[must_use]
    pub fn done(self) -> Vec<u8> {
        self.0
    }
}
