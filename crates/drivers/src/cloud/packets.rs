//! A connection for what is not HTTP: packets over TLS, each behind its length, one answer for one question.
//!
//! It is opened like one of HTTP, to an address that was judged and a peer that has shown who it is, and kept for the session. A call that is
//! given up closes it, since the rest of its answer would be taken for the next one's. Nothing is sent twice.

use super::io::Io;
use crate::DeviceError;
use crate::error::CHECK_ADDRESS;
use crate::http::{Stream, Target, dial};
use crate::resolve::unreachable;
use crate::tls::Expiry;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Longest packet in bytes.
pub const PACKET_BYTES_MAX: usize = 256 << 10;
/// Bytes of a length, which counts itself.
const LENGTH_BYTES: usize = 4;
/// Packets beside the answer that are passed over: a peer that sends more of them talks to somebody else.
const BESIDE_MAX: usize = 16;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Something to be read.
    Question,
    /// The same right before a command: a command that it keeps back was not sent.
    Check,
    /// A command, on a connection that is open.
    Command,
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is open, and nothing was said.
    Silent,
    /// The peer has begun to greet.
    Greeting,
    /// It takes questions.
    Ready,
}

/// A connection, or none yet.
pub struct Packets {
    target: Arc<Target>,
    resolved: Option<SocketAddr>,
    stream: Option<Box<dyn Stream>>,
    /// Number of the last packet on this connection.
    serial: u32,
    state: State,
    sent: bool,
    expiry: Option<Expiry>,
}

/// Shows where it leads.
impl fmt::Debug for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packets")
            .field("target", &self.target)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Packets {
    /// Nothing is opened yet.
    #[must_use]
    pub fn new(target: Arc<Target>) -> Self {
        Self {
            target,
            resolved: None,
            stream: None,
            serial: 0,
            state: State::Silent,
            sent: false,
            expiry: None,
        }
    }

    /// May a byte of the last question or command have left this host?
    #[must_use]
    pub fn sent(&self) -> bool {
        self.sent
    }

    /// When the certificates expire that the peer presented last.
    #[must_use]
    pub fn expiry(&self) -> Option<Expiry> {
        self.expiry
    }

    /// Opens the connection, unless it is.
    ///
    /// # Errors
    /// [`DeviceError`] when there is none to be had.
    pub async fn open(&mut self) -> Result<(), DeviceError> {
        self.sent = false;
        if self.stream.is_none() {
            let dialled = dial(&self.target, self.resolved).await?;
            self.resolved = Some(dialled.address);
            self.expiry = dialled.expiry;
            self.state = State::Silent;
            self.stream = Some(dialled.stream);
        }
        Ok(())
    }

    /// Opens it, unless it is ready for questions. Is it to be greeted? One whose greeting was given up is another one then.
    ///
    /// # Errors
    /// As [`Packets::open`].
    pub async fn wants_greeting(&mut self) -> Result<bool, DeviceError> {
        if self.state == State::Greeting {
            self.stream = None;
        }
        self.open().await?;
        Ok(self.state != State::Ready)
    }

    /// The one byte that some peers say first.
    ///
    /// # Errors
    /// [`DeviceError`] when the connection ended instead, whose handshake had ended well. A peer that goes down ends it like one that does not accept
    /// our certificate, so that it was refused is believed of a TLS alert alone: what counts as a wrong login is not tried again soon.
    pub async fn greeting(&mut self) -> Result<u8, DeviceError> {
        let Some(mut stream) = self.stream.take() else {
            return Err(self.broken("it was closed"));
        };
        self.state = State::Greeting;
        self.sent = true;
        let byte = stream
            .read_u8()
            .await
            .map_err(|error| self.unwelcome(&error))?;
        self.stream = Some(stream);
        Ok(byte)
    }

    /// Why there was no greeting.
    fn unwelcome(&self, error: &io::Error) -> DeviceError {
        match refused_by(error) {
            Some(alert) => DeviceError::AuthFailed {
                endpoint: self.target.address.to_string(),
                said: format!("TLS alert {alert} to the certificate"),
            },
            None => {
                let problem = format!(
                    "it closed the connection before its greeting ({error}): it was ending, or does not accept the certificate"
                );
                unreachable(&self.target.address, problem)
            }
        }
    }

    /// It takes questions from now on.
    pub fn greeted(&mut self) {
        self.state = State::Ready;
    }

    /// Sends the packet that this makes of its number, and takes the one that `read` finds to be the answer to it.
    ///
    /// # Errors
    /// [`DeviceError`] when no answer was understood; [`Packets::sent`] says whether anything may have arrived.
    pub async fn exchange<T>(
        &mut self,
        purpose: Purpose,
        packet: impl FnOnce(u32) -> Vec<u8>,
        read: impl Fn(&[u8], u32) -> Result<Option<T>, String>,
    ) -> Result<T, DeviceError> {
        self.sent = false;
        let Some(mut stream) = self.stream.take() else {
            return Err(self.broken("it was closed"));
        };
        self.serial = self.serial.wrapping_add(1);
        let (serial, packet) = (self.serial, packet(self.serial));
        self.sent = purpose != Purpose::Check;
        let written = async {
            stream.write_all(&packet).await?;
            stream.flush().await
        };
        let written: io::Result<()> = written.await;
        written.map_err(|error| self.broken(&error.to_string()))?;
        for _ in 0..BESIDE_MAX {
            let packet = self.packet(&mut *stream).await?;
            let answer = read(&packet, serial).map_err(|problem| self.protocol(&problem))?;
            if let Some(answer) = answer {
                self.stream = Some(stream);
                return Ok(answer);
            }
        }
        Err(self.protocol("it sends other packets than the answer"))
    }

    /// The next packet, without its length.
    async fn packet(&self, stream: &mut dyn Stream) -> Result<Vec<u8>, DeviceError> {
        let lost = |error: io::Error| self.broken(&error.to_string());
        let length = stream.read_u32().await.map_err(lost)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let rest = length.checked_sub(LENGTH_BYTES);
        let rest = rest.filter(|_| length <= PACKET_BYTES_MAX).ok_or_else(|| {
            self.protocol(&format!(
                "a packet of {length} bytes, and at most {PACKET_BYTES_MAX} are read"
            ))
        })?;
        let mut packet = vec![0; rest];
        match stream.read_exact(&mut packet).await {
            Ok(_) => Ok(packet),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.protocol("the connection ended within a packet"))
            }
            Err(error) => Err(lost(error)),
        }
    }

    fn broken(&self, problem: &str) -> DeviceError {
        let problem = format!("the connection broke before an answer ({problem})");
        unreachable(&self.target.address, problem)
    }

    fn protocol(&self, problem: &str) -> DeviceError {
        DeviceError::Protocol {
            endpoint: self.target.address.to_string(),
            problem: problem.to_owned(),
            way_out: CHECK_ADDRESS,
        }
    }
}

/// The alert by which a peer has refused our certificate. Source: RFC 8446, section 6.2.
fn refused_by(error: &io::Error) -> Option<u8> {
    use rustls::AlertDescription as Alert;
    const REFUSALS: [Alert; 8] = [
        Alert::BadCertificate,
        Alert::UnsupportedCertificate,
        Alert::CertificateRevoked,
        Alert::CertificateExpired,
        Alert::CertificateUnknown,
        Alert::UnknownCA,
        Alert::AccessDenied,
        Alert::CertificateRequired,
    ];
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::AlertReceived(alert) => REFUSALS.contains(alert).then(|| u8::from(*alert)),
        _ => None,
    }
}

impl Io {
    /// The same for a provider that does not speak HTTP: it has one connection, to the address in the settings.
    #[must_use]
    pub fn with_packets(mut self) -> Self {
        self.packets = Some(Packets::new(Arc::clone(&self.target)));
        self
    }

    /// The connection of a provider that does not speak HTTP.
    ///
    /// # Errors
    /// This one does.
    pub fn packets(&mut self) -> Result<&mut Packets, DeviceError> {
        let none = self.protocol(&self.main(), "it speaks HTTP");
        self.packets.as_mut().ok_or(none)
    }

    /// Sends a packet there, and takes what `read` finds to be the answer: a question when it is the account's turn, a command without waiting.
    ///
    /// # Errors
    /// As [`Packets::exchange`].
    pub async fn exchange<T>(
        &mut self,
        purpose: Purpose,
        packet: impl FnOnce(u32) -> Vec<u8>,
        read: impl Fn(&[u8], u32) -> Result<Option<T>, String>,
    ) -> Result<T, DeviceError> {
        let account = Arc::clone(&self.account);
        match purpose {
            Purpose::Question => account.turn().await,
            Purpose::Check | Purpose::Command => account.count(),
        }
        self.packets()?.exchange(purpose, packet, read).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::AlertDescription as Alert;

    #[test]
    fn only_an_alert_about_the_certificate_is_a_refusal() {
        let of = |alert| {
            let error = rustls::Error::AlertReceived(alert);
            refused_by(&io::Error::new(io::ErrorKind::InvalidData, error))
        };
        assert_eq!(of(Alert::UnknownCA), Some(48));
        assert_eq!(of(Alert::CertificateRequired), Some(116));
        assert_eq!(of(Alert::InternalError), None);
        assert_eq!(of(Alert::CloseNotify), None);
        assert_eq!(refused_by(&io::ErrorKind::UnexpectedEof.into()), None);
        assert_eq!(refused_by(&io::ErrorKind::ConnectionReset.into()), None);
    }
}
