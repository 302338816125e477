//! Messages: a command to the BMC and its answer, inside or outside of a session (§13.8).

use super::{Malformed, Reader};

/// Address of the BMC (§5.5).
const BMC: u8 = 0x20;
/// Software ID of a remote console (§5.5).
const REMOTE_CONSOLE: u8 = 0x81;
/// Bit of the network function: this is an answer.
const ANSWER: u8 = 0x01;
/// Sequence numbers of messages have six bits.
pub const SEQUENCE_MAX: u8 = 0x3f;

/// A command to the BMC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Network function; even.
    pub function: u8,
    /// Command of that function.
    pub command: u8,
    /// Its parameters.
    pub data: Vec<u8>,
}

impl Request {
    /// Its message, with this sequence number, of which six bits count.
    #[must_use]
    pub fn encode(&self, sequence: u8) -> Vec<u8> {
        encode(
            [BMC, self.function << 2],
            [REMOTE_CONSOLE, (sequence & SEQUENCE_MAX) << 2, self.command],
            &self.data,
        )
    }

    /// Does this answer belong to this command, sent with this sequence number outside of a session? There it proves nothing, and some
    /// BMCs always send 0. In a session it tells the answer to this question from that to an earlier one.
    #[must_use]
    pub fn is_answered_outside_by(&self, sequence: u8, answer: &Answer<'_>) -> bool {
        [sequence, 0]
            .iter()
            .any(|number| self.is_answered_by(*number, answer))
    }

    /// Does this answer belong to this command, sent with this sequence number?
    #[must_use]
    pub fn is_answered_by(&self, sequence: u8, answer: &Answer<'_>) -> bool {
        answer.function == self.function | ANSWER
            && answer.command == self.command
            && answer.sequence == sequence & SEQUENCE_MAX
    }
}

/// An answer of the BMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Network function; odd.
    pub function: u8,
    /// The command that is answered.
    pub command: u8,
    /// Sequence number of the command.
    pub sequence: u8,
    /// What became of the command.
    pub completion: u8,
    /// What it has brought.
    pub data: &'a [u8],
}

impl<'a> Answer<'a> {
    /// Reads a message of the BMC outside of a session, where nothing but its checksums shows that it is whole.
    ///
    /// # Errors
    /// It is no answer, or a checksum is wrong.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let whole = message.split_first_chunk::<3>();
        if whole.is_some_and(|(head, body)| sum(head) != 0 || sum(body) != 0) {
            return Err(Malformed("a checksum of its message is wrong"));
        }
        Self::decode_signed(message)
    }

    /// Reads a message whose authentication code was found right: its checksums and addresses prove nothing more.
    ///
    /// # Errors
    /// It is no answer.
    pub fn decode_signed(message: &'a [u8]) -> Result<Self, Malformed> {
        let (head, body) = message
            .split_first_chunk::<3>()
            .ok_or(Malformed("its message is cut"))?;
        let [_to, function, _] = *head;
        let (_, body) = body.split_last().ok_or(Malformed("its message is cut"))?;
        let mut reader = Reader(body);
        let [_from, sequence, command, completion] = reader.array()?;
        let function = function >> 2;
        if function & ANSWER == 0 {
            return Err(Malformed("its message is no answer"));
        }
        Ok(Self {
            function,
            command,
            sequence: sequence >> 2,
            completion,
            data: reader.0,
        })
    }

    /// The message of this answer, as a BMC would send it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut data = vec![self.completion];
        data.extend(self.data);
        encode(
            [REMOTE_CONSOLE, self.function << 2],
            [BMC, self.sequence << 2, self.command],
            &data,
        )
    }
}

fn encode(head: [u8; 2], middle: [u8; 3], data: &[u8]) -> Vec<u8> {
    let mut message = head.to_vec();
    message.push(sum(&head).wrapping_neg());
    let mut body = middle.to_vec();
    body.extend(data);
    body.push(sum(&body).wrapping_neg());
    message.extend(body);
    message
}

/// The sum of the bytes; zero over bytes and their checksum.
fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}
