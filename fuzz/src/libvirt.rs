//! Replies of a libvirt daemon: whatever arrives is read without a panic, takes no more memory than it has bytes, and none is taken for the reply to
//! another call.

use fencing_drivers::cloud::libvirt::remote::{self, Procedure, Refusal, reply};
use fencing_drivers::cloud::libvirt::xdr::Reader;

/// How what a procedure returns is read.
type Read<T> = fn(&mut Reader<'_>) -> Result<T, String>;
/// The number of the call.
const SERIAL: u32 = 7;

/// The first byte says which procedure was called, and whether the others are a packet or what stands behind the head of a right one.
pub fn run(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else {
        return;
    };
    let is_returned = which & 0x80 != 0;
    let packet = |procedure: Procedure| match is_returned {
        true => {
            let number = u32::try_from(procedure.0).expect("a number of a procedure");
            let status = u32::from(which & 0x40 != 0);
            let head = [0x2000_8086, 1, number, 1, SERIAL, status];
            let head = head.map(u32::to_be_bytes).concat();
            [head.as_slice(), bytes].concat()
        }
        false => bytes.to_vec(),
    };
    match which % 8 {
        0 => drop(read(&packet, remote::AUTH_LIST, remote::auth_types)),
        1 => drop(read(&packet, remote::HOSTNAME, remote::text)),
        2 => drop(read(&packet, remote::LOOKUP, remote::domain)),
        3 => drop(read(&packet, remote::SAVED, remote::flag)),
        4 => drop(read(&packet, remote::DESTROY, remote::nothing)),
        5 => {
            let listed = read(&packet, remote::LIST, remote::domains);
            let count = listed.map_or(0, |domains| domains.len());
            assert!(count <= bytes.len() / 24, "more than it has bytes for");
        }
        _ => {
            let state = read(&packet, remote::STATE, remote::state);
            assert!(state.is_none() || packet(remote::STATE).len() == 32);
        }
    }
}

/// What it returns, if it is a reply without an error.
fn read<T>(
    packet: &impl Fn(Procedure) -> Vec<u8>,
    procedure: Procedure,
    read: Read<T>,
) -> Option<T> {
    let packet = packet(procedure);
    let said = reply(&packet, procedure, SERIAL, read);
    let other = reply(&packet, procedure, SERIAL + 1, read);
    if said.as_ref().is_ok_and(|it| it.is_some()) {
        assert!(other.is_err(), "it is the reply to two calls");
    }
    match said {
        Ok(Some(Ok(returned))) => Some(returned),
        Ok(Some(Err(Refusal { message, .. }))) => {
            assert!(message.len() <= 3 * packet.len(), "it has grown");
            None
        }
        Ok(None) | Err(_) => None,
    }
}
