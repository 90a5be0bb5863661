//! As much of WebSocket (RFC 6455) as a client needs that listens: reading messages, answering pings, closing.
//!
//! Our own: what Kubernetes sends over it is a handful of messages, and a crate for it would bring a client of HTTP of its own.
//!
//! # Invariants
//! * Nothing larger than [`LARGEST_MESSAGE`] is held in memory, whatever a server sends.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The largest message that is taken.
const LARGEST_MESSAGE: usize = 4 << 20;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;

/// A connection on which messages arrive.
#[derive(Debug)]
pub(crate) struct WebSocket<S> {
    stream: S,
}

/// One frame.
struct Frame {
    is_last: bool,
    opcode: u8,
    payload: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream }
    }

    /// The next message. None if the server has closed the connection.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut message = Vec::new();
        loop {
            let frame = match self.frame(LARGEST_MESSAGE - message.len()).await {
                // Without a word of farewell, too.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                frame => frame?,
            };
            match frame.opcode {
                PING => self.send(PONG, &frame.payload).await?,
                PONG => {}
                CLOSE => {
                    // Whether it receives that makes no difference any more.
                    let _ = self.send(CLOSE, &[]).await;
                    return Ok(None);
                }
                TEXT | BINARY | CONTINUATION => {
                    message.extend(frame.payload);
                    if frame.is_last {
                        return Ok(Some(message));
                    }
                }
                _ => return Err(invalid("the server sent a frame of an unknown type")),
            }
        }
    }

    async fn frame(&mut self, room: usize) -> io::Result<Frame> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).await?;
        let length = match head[1] & 0x7F {
            126 => u64::from(self.stream.read_u16().await?),
            127 => self.stream.read_u64().await?,
            length => u64::from(length),
        };
        if head[1] & 0x80 != 0 {
            return Err(invalid("the server masked a frame, which only clients do"));
        }
        let length = usize::try_from(length).ok().filter(|length| *length <= room);
        let length = length.ok_or_else(|| invalid("the server sent a message that is too large"))?;
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).await?;
        Ok(Frame { is_last: head[0] & 0x80 != 0, opcode: head[0] & 0x0F, payload })
    }

    /// Sends a short frame.
    async fn send(&mut self, opcode: u8, payload: &[u8]) -> io::Result<()> {
        let payload = &payload[..payload.len().min(125)];
        let length = u8::try_from(payload.len()).unwrap_or_default();
        // Clients mask what they send, to keep it from looking like something else to a proxy. What is sent here repeats what the server
        // sent, so that a mask of zeros does.
        let mut frame = vec![0x80 | opcode, 0x80 | length, 0, 0, 0, 0];
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).await?;
        self.stream.flush().await
    }
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of these bytes, and what is answered.
    async fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, io::Result<()>, Vec<u8>) {
        let (mut server, client) = tokio::io::duplex(1 << 20);
        server.write_all(bytes).await.unwrap();
        server.shutdown().await.unwrap();
        let mut socket = WebSocket::new(client);
        let mut messages = Vec::new();
        let ended = loop {
            match socket.next().await {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        drop(socket);
        let mut answered = Vec::new();
        server.read_to_end(&mut answered).await.unwrap();
        (messages, ended, answered)
    }

    #[tokio::test]
    async fn messages_are_read_whole_and_pings_are_answered() {
        let mut bytes = vec![0x82, 2, 1, b'a'];
        bytes.extend([0x02, 1, 1, 0x89, 2, 7, 8, 0x80, 2, b'b', b'c']);
        bytes.extend([0x82, 126, 1, 0]);
        bytes.extend([9; 256]);
        bytes.extend([0x88, 0]);
        let (messages, ended, answered) = read(&bytes).await;
        assert_eq!(messages, [vec![1, b'a'], vec![1, b'b', b'c'], vec![9; 256]]);
        assert!(ended.is_ok());
        assert_eq!(answered, [0x8A, 0x82, 0, 0, 0, 0, 7, 8, 0x88, 0x80, 0, 0, 0, 0]);
    }

    #[tokio::test]
    async fn hostile_frames_are_refused() {
        let huge = [0x82, 127, 0xFF, 0, 0, 0, 0, 0, 0, 0];
        for bytes in [&huge[..], &[0x82, 0x81, 0, 0, 0, 0, 1], &[0x83, 0]] {
            assert!(read(bytes).await.1.is_err(), "{bytes:?}");
        }
        let (messages, ended, _) = read(&[0x82, 9, 1]).await;
        assert!(messages.is_empty() && ended.is_ok());
    }
}
