//! Requests and responses inside of the packets (IPMI 2.0, sections 5.2, 13.8 and appendix G).

use anyhow::{Result, ensure};

use super::wire::Reader;

/// Network functions.
pub(super) const CHASSIS: u8 = 0x00;
pub(super) const APP: u8 = 0x06;
/// Network function: logs and inventories.
pub(super) const STORAGE: u8 = 0x0A;

/// Completion codes.
pub(super) mod code {
    pub(in super::super) const INVALID_COMMAND: u8 = 0xC1;
    pub(in super::super) const WRONG_LENGTH: u8 = 0xC7;
    pub(in super::super) const INVALID_FIELD: u8 = 0xCC;
    pub(in super::super) const INSUFFICIENT_PRIVILEGE: u8 = 0xD4;
    pub(in super::super) const NOT_IN_THIS_STATE: u8 = 0xD5;
}

/// The address of a BMC.
const BMC: u8 = 0x20;

/// A request to the BMC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) net_fn: u8,
    pub(super) command: u8,
    pub(super) data: Vec<u8>,
    /// The requester's address, sequence number with LUN, and the responder's LUN: sent back as they came.
    pub(super) requester: u8,
    pub(super) sequence: u8,
    pub(super) lun: u8,
}

impl Request {
    pub(super) fn parse(message: &[u8]) -> Result<Self> {
        let mut reader = Reader(message);
        let head = reader.bytes(3)?;
        ensure!(sum(head) == 0, "the first checksum is wrong");
        let body = reader.0;
        ensure!(body.len() >= 4, "it is too short");
        ensure!(sum(body) == 0, "the second checksum is wrong");
        let [requester, sequence, command] = reader.array()?;
        ensure!(head[0] == BMC, "it is for {:#04x}, not for a BMC", head[0]);
        Ok(Self {
            net_fn: head[1] >> 2,
            command,
            data: reader.0[..reader.0.len() - 1].to_vec(),
            requester,
            sequence,
            lun: head[1] & 0b11,
        })
    }

    /// A request with this sequence number, from the address that remote consoles have.
    pub(super) fn encode(sequence: u8, net_fn: u8, command: u8, data: &[u8]) -> Vec<u8> {
        const CONSOLE: u8 = 0x81;
        let mut message = vec![BMC, net_fn << 2];
        message.push(checksum(&message));
        let mut body = vec![CONSOLE, sequence << 2, command];
        body.extend(data);
        body.push(checksum(&body));
        message.extend(body);
        message
    }

    /// The response with this completion code and data.
    pub(super) fn answer(&self, completion: u8, data: impl Into<Vec<u8>>) -> Response {
        Response {
            net_fn: self.net_fn | 1,
            command: self.command,
            code: completion,
            data: data.into(),
            requester: self.requester,
            sequence: self.sequence,
            lun: self.lun,
            bad_checksum: false,
        }
    }
}

/// A response to a request.
#[derive(Debug, Clone)]
pub(super) struct Response {
    pub(super) net_fn: u8,
    pub(super) command: u8,
    pub(super) code: u8,
    pub(super) data: Vec<u8>,
    pub(super) requester: u8,
    pub(super) sequence: u8,
    pub(super) lun: u8,
    /// Sent with a wrong second checksum.
    pub(super) bad_checksum: bool,
}

impl Response {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut message = vec![self.requester, self.net_fn << 2 | (self.sequence & 0b11)];
        message.push(checksum(&message));
        let mut body = vec![
            BMC,
            (self.sequence & !0b11) | self.lun,
            self.command,
            self.code,
        ];
        body.extend(&self.data);
        body.push(checksum(&body) ^ u8::from(self.bad_checksum));
        message.extend(body);
        message
    }
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// The byte that makes the sum zero.
pub(super) fn checksum(bytes: &[u8]) -> u8 {
    sum(bytes).wrapping_neg()
}
