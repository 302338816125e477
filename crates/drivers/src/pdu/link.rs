//! A conversation with a PDU over UDP.
//!
//! The socket is connected, so the kernel drops what comes from another address, and a closed port answers at once. What is
//! not answered is sent again, the same bytes with the same numbers, until the caller's time is over.

use super::snmp::{Binding, Conversation, Heard, Kind, Refusal, Security, Unit, message};
use crate::DeviceError;
use crate::address::{Address, AddressRules};
use crate::clock::Clock;
use crate::credentials::Credentials;
use crate::error::{CHECK_ADDRESS, printable};
use crate::resolve::{self, unreachable};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Pause before the same datagram is sent again.
const RESEND_AFTER: Duration = Duration::from_millis(700);
/// Datagrams that answer nothing, in one question, after which somebody is flooding us.
const STRAY_MAX: u32 = 1000;

/// Addresses of a name that an error lists.
const ADDRESSES_SHOWN_MAX: usize = 4;

/// A connected socket and what was agreed on over it.
#[derive(Debug)]
pub struct Link {
    device: Address,
    socket: UdpSocket,
    conversation: Conversation,
    clock: Clock,
    buffer: Vec<u8>,
    /// How often a datagram of the last question may have left this host.
    sends: u32,
    /// Datagrams that answered nothing since the last question was put, and why the last of them did not.
    stray: u32,
    stray_because: String,
}

impl Link {
    /// Resolves the host, judges its addresses, and connects a socket. Sends nothing.
    pub async fn open(
        device: &Address,
        rules: &AddressRules,
        credentials: &Credentials,
        security: Arc<Security>,
        clock: Clock,
    ) -> Result<Self, DeviceError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(|error| unreachable(device, format!("no random numbers ({error})")))?;
        let found = of_one_pdu(device, resolve::found(device, rules).await?)?;
        let mut problem = String::new();
        for address in resolve::allowed(device, credentials, rules, found)? {
            match connect(address).await {
                Ok(socket) => {
                    return Ok(Self {
                        device: device.clone(),
                        socket,
                        conversation: Conversation::new(security, seed),
                        clock,
                        // One more than allowed, so that a longer datagram is seen to be longer.
                        buffer: vec![0; message::DATAGRAM_BYTES_MAX + 1],
                        sends: 0,
                        stray: 0,
                        stray_because: String::new(),
                    });
                }
                Err(error) => problem = format!("{address}: {error}"),
            }
        }
        Err(unreachable(device, problem))
    }

    /// How often a datagram of the last question may have left this host.
    pub fn sends(&self) -> u32 {
        self.sends
    }

    /// Puts a question until it is answered. The caller bounds it by dropping it.
    pub async fn ask(&mut self, kind: Kind, bindings: Vec<Binding>) -> Result<Unit, DeviceError> {
        (self.sends, self.stray) = (0, 0);
        let now = self.clock.since_boot();
        let mut datagram = self.conversation.ask(kind, bindings, now);
        loop {
            // Before the call: what is dropped while it is being sent may have been sent.
            self.sends += 1;
            if let Err(error) = self.socket.send(&datagram).await {
                return Err(self.broken(&error));
            }
            match timeout(RESEND_AFTER, self.hear()).await {
                Err(_) => {}
                Ok(Ok(Heard::Send(next))) => datagram = next,
                Ok(Ok(Heard::Answer(unit))) => return Ok(unit),
                Ok(Ok(Heard::Refused(refusal))) => return Err(self.refused(refusal)),
                Ok(Ok(Heard::Nothing(because))) => return Err(self.flooded(&because)),
                Ok(Err(error)) => return Err(error),
            }
        }
    }

    /// The next datagram that means something; [`Heard::Nothing`] only when too many meant nothing.
    async fn hear(&mut self) -> Result<Heard, DeviceError> {
        loop {
            let length = match self.socket.recv(&mut self.buffer).await {
                Ok(length) => length,
                Err(error) => return Err(self.broken(&error)),
            };
            let heard = match self.buffer.get(..length) {
                Some(datagram) if length <= message::DATAGRAM_BYTES_MAX => {
                    self.conversation.hear(datagram, self.clock.since_boot())
                }
                _ => Heard::Nothing(format!(
                    "it has more than {} bytes",
                    message::DATAGRAM_BYTES_MAX
                )),
            };
            match heard {
                Heard::Nothing(because) if self.stray < STRAY_MAX => {
                    self.stray += 1;
                    self.stray_because = because;
                }
                heard => return Ok(heard),
            }
        }
    }

    /// What it means that the last question has had no answer for so long.
    pub fn silence(&self, waited: Duration) -> DeviceError {
        match self.stray {
            0 => {
                let (asked, or_name) = self.asked_by_name();
                let problem = format!(
                    "no answer within {waited:?}{asked}. An agent is silent, too, when {}, or when its access list does not admit the \
                     operator{or_name}",
                    self.conversation.silent_when()
                );
                unreachable(&self.device, problem)
            }
            count => DeviceError::Protocol {
                endpoint: self.device.to_string(),
                problem: format!(
                    "no answer within {waited:?}, and {count} datagrams that are none, the last because {}",
                    self.stray_because
                ),
                way_out: CHECK_ADDRESS,
            },
        }
    }

    /// Which address of a name was asked, and what if it is not the right one.
    fn asked_by_name(&self) -> (String, &'static str) {
        match (self.device.literal(), self.socket.peer_addr()) {
            (None, Ok(asked)) => (
                format!(" from {}", asked.ip()),
                ". If the PDU listens at another address of its name, write the one address into `pdu.address`",
            ),
            _ => (String::new(), ""),
        }
    }

    fn flooded(&self, because: &str) -> DeviceError {
        DeviceError::Protocol {
            endpoint: self.device.to_string(),
            problem: format!(
                "over {STRAY_MAX} datagrams that answer nothing, the last because {because}"
            ),
            way_out: CHECK_ADDRESS,
        }
    }

    fn broken(&self, error: &std::io::Error) -> DeviceError {
        let problem = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "nothing listens on this UDP port".to_owned(),
            _ => printable(&error.to_string(), 120),
        };
        unreachable(&self.device, problem)
    }

    fn refused(&self, refusal: Refusal) -> DeviceError {
        let endpoint = self.device.to_string();
        match refusal {
            Refusal::User(said) => DeviceError::AuthFailed {
                endpoint,
                said: match said {
                    "wrongDigests" => "wrongDigests: `authPassword` or the protocol of `pdu.snmp.authentication` differs",
                    "decryptionErrors" => "decryptionErrors: `privPassword` or the protocol of `pdu.snmp.privacy` differs",
                    said => said,
                }
                .to_owned(),
            },
            Refusal::Level => DeviceError::Settings {
                field: "pdu.snmp",
                problem: format!(
                    "the user has no such `authentication` or `privacy` on {endpoint}; set those of the PDU (DES and MD5 are not supported: use AES-128 and SHA)"
                ),
            },
            Refusal::OtherEngine => DeviceError::Protocol {
                endpoint,
                problem: "another SNMP engine answers than before, or an unsigned report claims so".to_owned(),
                way_out: "find a second device with this address if this lasts",
            },
            Refusal::Other(problem) => DeviceError::Declined {
                endpoint,
                problem,
                way_out: "check `pdu.snmp` against the user and the versions of SNMP that are enabled on the PDU".to_owned(),
            },
        }
    }
}

/// The addresses of a name, in an order that the name service has no part in. Each session asks for them anew, and an outlet does not
/// know its PDU: of two that share a name, one would be switched and the other one read (S5).
fn of_one_pdu(
    device: &Address,
    mut found: Vec<SocketAddr>,
) -> Result<Vec<SocketAddr>, DeviceError> {
    found.sort_by_key(|address| (is_ipv6(address), *address));
    found.dedup();
    let differ = |[one, next]: &[SocketAddr; 2]| is_ipv6(one) != is_ipv6(next);
    if found.array_windows().all(differ) {
        return Ok(found);
    }
    let shown = found.iter().take(ADDRESSES_SHOWN_MAX);
    let shown: Vec<String> = shown.map(|address| address.ip().to_string()).collect();
    Err(DeviceError::Settings {
        field: "pdu.address",
        problem: format!(
            "{} resolves to {} addresses ({}), and a PDU has one per IP version; create a FenceDevice for each PDU (level `require: All`), or write the one address into `pdu.address`",
            device.host,
            found.len(),
            shown.join(", ")
        ),
    })
}

/// An IPv4 address in IPv6 clothes is one of IPv4.
fn is_ipv6(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_ipv6()
}

/// A socket that talks to this address only.
async fn connect(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(address).await?;
    Ok(socket)
}
