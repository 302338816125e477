//! The bytes of IPMI over LAN (IPMI v2.0 revision 1.1, chapters 13, 22 and 28): what is sent, and what is received.
//!
//! Pure, and total over any bytes: a decoder either understands a datagram or says what is [`Malformed`] about it. Lengths are
//! exact where the specification is. Nothing here knows a key, a clock or a socket.

pub mod command;
pub mod lan;
pub mod packet;
pub mod rakp;

#[cfg(test)]
mod tests;

/// What keeps bytes from being understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// The bytes that are left to be read. Integers are little-endian, as everywhere in IPMI.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `N` bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self
            .0
            .split_first_chunk()
            .ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    /// The next byte.
    ///
    /// # Errors
    /// There is none.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// The next two bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next `count` bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }
}
