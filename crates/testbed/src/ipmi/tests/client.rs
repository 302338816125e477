//! A client that sends what a test wants and checks nothing by itself. It shares the BMC's codec, which the judges have
//! judged.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::{net::UdpSocket, time::timeout};

use super::super::{
    IpmiBmc, Suite,
    crypto::Keys,
    login::Exchange,
    message::{Request, checksum},
    wire::{self, Packet, Plus, Reader, Seal, payload},
};

/// How long a client waits for an answer that it does not expect.
pub const QUIET: Duration = Duration::from_millis(150);
/// How long it waits for one that it expects.
const SOON: Duration = Duration::from_secs(5);
pub const CONSOLE: u32 = 0xA1B2_C3D4;
const RANDOM: [u8; 16] = *b"a random number!";
/// OPERATOR, looked up by the name alone.
pub const OPERATOR: u8 = 0x13;

pub struct Client {
    pub socket: UdpSocket,
    pub suite: Suite,
    pub user: String,
    pub password: String,
    pub role: u8,
}

/// A session of a client.
pub struct Session {
    client: Client,
    pub id: u32,
    pub guid: [u8; 16],
    pub keys: Keys,
    pub sequence: u32,
    pub request: u8,
}

/// A response, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub command: u8,
    pub request: u8,
    pub code: u8,
    pub data: Vec<u8>,
}

impl Client {
    pub async fn new(bmc: &IpmiBmc) -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        socket.connect(bmc.address()).await?;
        Ok(Self {
            socket,
            suite: Suite::Seventeen,
            user: bmc.credentials().username.clone(),
            password: bmc.credentials().password.clone(),
            role: OPERATOR,
        })
    }

    /// What arrives next.
    pub async fn receive(&self, within: Duration) -> Result<Vec<u8>> {
        let mut buffer = vec![0; 4096];
        let received = timeout(within, self.socket.recv(&mut buffer)).await;
        let length = received.context("nothing came")??;
        buffer.truncate(length);
        Ok(buffer)
    }

    pub async fn ask(&self, datagram: &[u8]) -> Result<Vec<u8>> {
        self.socket.send(datagram).await?;
        self.receive(SOON).await
    }

    /// Sends a message of the login and returns the payload that answers it.
    pub async fn ask_login(&self, kind: u8, message: &[u8]) -> Result<Vec<u8>> {
        let answer = self.ask(&wire::plain(kind, message)).await?;
        let answer = parsed(&answer)?;
        ensure!(answer.payload_type == kind + 1, "{answer:?}");
        Ok(answer.payload.to_vec())
    }

    pub async fn open(&self) -> Result<Vec<u8>> {
        let message = open_request(self.suite.algorithms());
        self.ask_login(payload::OPEN_REQUEST, &message).await
    }

    pub fn rakp_1(&self, session: u32) -> Vec<u8> {
        let mut message = vec![1, 0, 0, 0];
        message.extend(session.to_le_bytes());
        message.extend(RANDOM);
        message.extend([self.role, 0, 0, u8::try_from(self.user.len()).unwrap()]);
        message.extend(self.user.as_bytes());
        message
    }

    /// What the exchange is, by the client's own knowledge and RAKP message 2.
    pub fn exchange(&self, session: u32, rakp_2: &[u8]) -> Result<Exchange> {
        let mut reader = Reader(rakp_2);
        let [_, status, ..] = reader.array::<8>()?;
        ensure!(status == 0, "status {status:#04x} in RAKP message 2");
        let (random, guid) = (reader.array()?, reader.array()?);
        let exchange = Exchange {
            suite: self.suite,
            console: CONSOLE,
            session,
            console_random: RANDOM,
            random,
            guid,
            role: self.role,
            user: self.user.clone().into_bytes(),
            password: self.password.clone().into_bytes(),
        };
        Ok(exchange)
    }

    pub fn rakp_3(session: u32, status: u8, code: &[u8]) -> Vec<u8> {
        [&[2, status, 0, 0], session.to_le_bytes().as_slice(), code].concat()
    }

    /// Logs in.
    pub async fn login(self) -> Result<Session> {
        let id = session_id(&self.open().await?)?;
        let rakp_1 = self.rakp_1(id);
        let rakp_2 = self.ask_login(payload::RAKP_1, &rakp_1).await?;
        let exchange = self.exchange(id, &rakp_2)?;
        let rakp_3 = Self::rakp_3(id, 0, &exchange.code_3());
        let rakp_4 = self.ask_login(payload::RAKP_3, &rakp_3).await?;
        ensure!(
            rakp_4[1] == 0,
            "status {:#04x} in RAKP message 4",
            rakp_4[1]
        );
        ensure!(
            rakp_2[40..] == exchange.code_2(),
            "the code of RAKP message 2"
        );
        ensure!(
            rakp_4[8..] == exchange.code_4(),
            "the code of RAKP message 4"
        );
        Ok(Session {
            keys: Keys::new(self.suite, &exchange.sik()),
            client: self,
            id,
            guid: exchange.guid,
            sequence: 0,
            request: 0,
        })
    }
}

impl Session {
    /// The datagram of the next request.
    pub fn next(&mut self, net_fn: u8, command: u8, data: &[u8]) -> Vec<u8> {
        self.sequence += 1;
        self.request += 1;
        let seal = Seal {
            session: self.id,
            sequence: self.sequence,
            ..Seal::default()
        };
        wire::seal(
            &self.keys,
            seal,
            &Request::encode(self.request, net_fn, command, data),
        )
    }

    pub async fn send(&self, datagram: &[u8]) -> Result<()> {
        Ok(self.client.socket.send(datagram).await.map(drop)?)
    }

    /// The next datagram that arrives, whole.
    pub async fn receive(&self, within: Duration) -> Result<Vec<u8>> {
        self.client.receive(within).await
    }

    /// The response in a datagram.
    pub fn open(&self, datagram: &[u8]) -> Result<Response> {
        let packet = parsed(datagram)?;
        ensure!(packet.session == CONSOLE, "for {:#010x}", packet.session);
        response(&packet.open(&self.keys)?)
    }

    pub async fn ask(&mut self, net_fn: u8, command: u8, data: &[u8]) -> Result<(u8, Vec<u8>)> {
        let datagram = self.next(net_fn, command, data);
        self.send(&datagram).await?;
        let answer = self.receive(SOON).await?;
        let response = self.open(&answer)?;
        ensure!((response.command, response.request) == (command, self.request));
        Ok((response.code, response.data))
    }

    /// The byte with the power state.
    pub async fn power(&mut self) -> Result<u8> {
        match self.ask(0, 1, &[]).await? {
            (0, data) if data.len() == 4 => Ok(data[0]),
            other => bail!("Get Chassis Status: {other:x?}"),
        }
    }

    pub async fn raise(&mut self, level: u8) -> Result<(u8, Vec<u8>)> {
        self.ask(6, 0x3B, &[level]).await
    }

    /// A session that may switch the power.
    pub async fn operator(bmc: &IpmiBmc) -> Result<Self> {
        let mut session = Client::new(bmc).await?.login().await?;
        ensure!(session.raise(3).await? == (0, vec![3]));
        Ok(session)
    }

    pub async fn control(&mut self, byte: u8) -> Result<u8> {
        Ok(self.ask(0, 2, &[byte]).await?.0)
    }

    pub async fn close(&mut self) -> Result<u8> {
        let id = self.id.to_le_bytes();
        Ok(self.ask(6, 0x3C, &id).await?.0)
    }
}

pub fn open_request(algorithms: [u8; 3]) -> Vec<u8> {
    let mut message = vec![0, 0, 0, 0];
    message.extend(CONSOLE.to_le_bytes());
    for (number, algorithm) in (0..).zip(algorithms) {
        message.extend([number, 0, 0, 8, algorithm, 0, 0, 0]);
    }
    message
}

/// The BMC's number of a session, from its answer to Open Session.
pub fn session_id(opened: &[u8]) -> Result<u32> {
    ensure!(opened[1] == 0, "status {:#04x} of Open Session", opened[1]);
    Ok(u32::from_le_bytes(opened[8..12].try_into()?))
}

/// A response, if it is whole.
pub fn response(message: &[u8]) -> Result<Response> {
    let (head, body) = message.split_at_checked(3).context("too short")?;
    ensure!(
        checksum(head) == 0 && checksum(body) == 0,
        "a wrong checksum"
    );
    let mut reader = Reader(&body[..body.len() - 1]);
    let [_, request, command, code] = reader.array()?;
    Ok(Response {
        command,
        request: request >> 2,
        code,
        data: reader.0.to_vec(),
    })
}

pub fn parsed(datagram: &[u8]) -> Result<Plus<'_>> {
    match Packet::parse(datagram)? {
        Packet::Plus(packet) => Ok(packet),
        other => bail!("{other:?}"),
    }
}
