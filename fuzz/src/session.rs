//! The machine of an IPMI session: whatever arrives, in whatever order and at whatever time, it neither panics nor spins, and without the
//! password nobody opens a session.

use fencing_drivers::ipmi::codec::command::get_chassis_status;
use fencing_drivers::ipmi::codec::rakp::Privilege;
use fencing_drivers::ipmi::crypto::Suite;
use fencing_drivers::ipmi::session::{Account, Next, Session};
use std::time::Duration;

/// Instructions and datagrams, one after the other.
pub fn run(bytes: &[u8]) {
    let account = Account {
        suite: Suite::Sha1,
        user: b"operator".to_vec(),
        password: b"correct horse".to_vec().into(),
    };
    let mut count = 0_u8;
    let random = move || {
        count = count.wrapping_add(1);
        Some([count; 16])
    };
    let mut session = Session::new(account, Box::new(random));
    let mut now = Duration::ZERO;
    session.log_in(Privilege::Operator, now);
    let mut rest = bytes;
    // An instruction, a length, and a datagram of that length behind the header of RMCP+.
    while let Some(([what, length], behind)) = rest.split_first_chunk::<2>() {
        let (datagram, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = behind;
        match what % 8 {
            0 => session.close(now),
            1 => session.command(get_chassis_status(), Duration::ZERO, now),
            2 => session.plain_command(get_chassis_status(), now),
            3 => now += Duration::from_millis(u64::from(*length) * 10),
            4 => {
                let _ = session.receive(datagram, now);
            }
            _ => {
                let framed = [&[6, 0, 0xff, 7, 6][..], datagram].concat();
                let _ = session.receive(&framed, now);
            }
        }
        let mut said = 0;
        while let Next::Send(_) | Next::Done(_) = session.next(now) {
            said += 1;
            assert!(said < 100, "it spins");
        }
        assert!(!session.is_open(), "without the password");
    }
}
