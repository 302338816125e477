//! The bytes of the daemon's packets, and of what is none.

use anyhow::{Result, bail};
use tokio::io::AsyncWriteExt;

use crate::{bmc::Nonsense, https::Wire};

/// `VIR_ERR_OPERATION_TIMEOUT`: something else holds the domain.
const TIMEOUT: i32 = 68;

/// Returned values, or the number of an error.
pub type Said = Result<Vec<u8>, i32>;

/// `int`s.
pub fn numbers(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|it| it.to_be_bytes()).collect()
}

/// `string<>`.
pub fn text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len().next_multiple_of(4), 0);
    let length = u32::try_from(text.len()).expect("a short text");
    [length.to_be_bytes().to_vec(), bytes].concat()
}

/// A packet with its length.
pub fn packed(procedure: i32, kind: i32, serial: u32, said: Said) -> Vec<u8> {
    let (status, values) = match said {
        Ok(values) => (0, values),
        // Code, origin, message, level, what it is about, three texts, two numbers, a network.
        Err(code) => {
            let words = [numbers(&[code, 10, 1]), text(&format!("error {code}"))];
            (
                1,
                [words.concat(), numbers(&[2, 0, 0, 0, 0, 0, 0, 0])].concat(),
            )
        }
    };
    let length = u32::try_from(values.len() + 28).expect("a short packet");
    let head = [length, 0x2000_8086, 1].map(u32::to_be_bytes).concat();
    let serial = serial.to_be_bytes().to_vec();
    [
        head,
        numbers(&[procedure, kind]),
        serial,
        numbers(&[status]),
        values,
    ]
    .concat()
}

/// Writes what is no answer, in the way of this nonsense, as far as packets know it.
pub async fn spoil(stream: &mut Wire, what: &Nonsense, answer: Vec<u8>, serial: u32) -> Result<()> {
    let bytes = match what {
        Nonsense::Status(..) => packed(212, 1, serial, Err(TIMEOUT)),
        Nonsense::Truncated => {
            stream.write_all(&answer[..answer.len() / 2]).await?;
            stream.flush().await?;
            stream.shutdown().await?;
            bail!("it ends here");
        }
        // A length that nobody reads.
        Nonsense::Padded(bytes) => [u32::try_from(*bytes)?.to_be_bytes().to_vec(), answer].concat(),
        // Other packets, and never the answer.
        Nonsense::EndlessChunks => loop {
            stream.write_all(&packed(107, 2, 0, Ok(Vec::new()))).await?;
        },
        Nonsense::Empty => numbers(&[4]),
        Nonsense::Html => b"<!DOCTYPE html><html></html>".to_vec(),
        // One that holds less, or more, than it should.
        Nonsense::BadJson => packed(212, 1, serial, Ok(numbers(&[5]))),
        _ => packed(212, 1, serial, Ok(numbers(&[5, 1, 5, 1]))),
    };
    stream.write_all(&bytes).await?;
    Ok(())
}
