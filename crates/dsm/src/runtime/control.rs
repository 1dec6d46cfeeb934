//! What ranks tell each other beside the protocol: who they are, that they are done, who died.
//!
//! One tag byte, then little-endian fields; tag 0 is a message of the protocol.

use littoral_base::codec::{Reader, Writer};
use littoral_base::units::NodeId;
use littoral_fabric::process::{IDENTITY_BYTES, Identity};

use super::standstill::Report;
use crate::core::message::{LockId, Message};
use crate::core::wire;
use crate::error::{Error, Kind, Result};

/// In place of the number of an allocation: the sender leaves the job, at its barrier of the number
/// that stands in place of the fingerprint.
pub(super) const LEAVES: u32 = u32::MAX;

/// What is done to a condition variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CvAct {
    Set,
    Reset,
    Wait,
    /// From the manager: it is set.
    Granted,
    /// From the manager: it has set or reset it, as was asked.
    Heard,
}

impl CvAct {
    pub(super) const ALL: [CvAct; 5] =
        [CvAct::Set, CvAct::Reset, CvAct::Wait, CvAct::Granted, CvAct::Heard];
}

/// A body of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// The protocol's.
    Protocol(Message),
    /// Several of the protocol's, in order.
    Combined(Vec<Message>),
    /// The identity of the rank's process.
    Hello(Identity),
    /// The sender needs no other rank any more.
    Goodbye,
    /// `rank` is gone; it held these of the locks that I manage.
    FailureReport { rank: NodeId, held: Vec<LockId>, how: String },
    /// The job cannot go on.
    Abort { why: String },
    /// My allocation number `count` was the one with this fingerprint; number 0 is the address of
    /// the view, and [`LEAVES`] says that I leave.
    Agreed { count: u32, fingerprint: u64 },
    /// A letter of the program.
    Mail { channel: u8, tag: i32, bytes: Vec<u8> },
    /// So many bytes of letters from the receiver of this are taken, or may wait here.
    Credit { bytes: u64 },
    /// Something is done to a condition variable; or it is set (`Granted`), or was changed as asked
    /// (`Heard`).
    Cv { act: CvAct, cv: u32 },
    /// What the sender's program waits for, and what the sender has sent and taken.
    Report(Report),
}

impl Body {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        match self {
            Body::Protocol(m) => _ = w.u8(0).raw(&wire::encode(m)),
            Body::Hello(identity) => _ = w.u8(1).raw(&identity.encode()),
            Body::Goodbye => _ = w.u8(2),
            Body::FailureReport { rank, held, how } => {
                let count = u32::try_from(held.len()).expect("invariant: locks are u32");
                w.u8(3).u16(rank.0).u32(count);
                held.iter().for_each(|l| _ = w.u32(l.0));
                w.raw(how.as_bytes());
            }
            Body::Abort { why } => _ = w.u8(4).raw(why.as_bytes()),
            Body::Agreed { count, fingerprint } => _ = w.u8(5).u32(*count).u64(*fingerprint),
            Body::Mail { channel, tag, bytes } => {
                _ = w.u8(6).u8(*channel).u32(tag.cast_unsigned()).raw(bytes);
            }
            Body::Credit { bytes } => _ = w.u8(9).u64(*bytes),
            Body::Cv { act, cv } => _ = w.u8(7).u8(*act as u8).u32(*cv),
            Body::Combined(messages) => return combine(messages.iter().cloned()),
            Body::Report(report) => report.encode(w.u8(10)),
        }
        w.finish()
    }

    /// # Errors
    /// `Kind::Protocol` for bytes that are no body.
    pub(super) fn decode(bytes: &[u8]) -> Result<Body> {
        match bytes.split_first() {
            Some((0, rest)) => wire::decode(rest).map(Body::Protocol),
            Some((8, rest)) => combined(rest).map(Body::Combined),
            Some((&tag, rest)) => {
                let mut r = Reader::new(rest);
                let body = Self::control(tag, &mut r).filter(|_| r.remaining() == 0);
                body.ok_or_else(|| Error::new(Kind::Protocol, format!("a bad body of tag {tag}")))
            }
            None => Err(Error::new(Kind::Protocol, "an empty body")),
        }
    }

    fn control(tag: u8, r: &mut Reader<'_>) -> Option<Body> {
        Some(match tag {
            1 => Body::Hello(Identity::decode(r.bytes(IDENTITY_BYTES)?)?),
            2 => Body::Goodbye,
            3 => {
                let rank = NodeId(r.u16()?);
                let mut held = Vec::new();
                for _ in 0..r.u32()? {
                    held.push(LockId(r.u32()?));
                }
                Body::FailureReport { rank, held, how: text(r)? }
            }
            4 => Body::Abort { why: text(r)? },
            5 => Body::Agreed { count: r.u32()?, fingerprint: r.u64()? },
            6 => {
                let (channel, tag) = (r.u8()?, r.u32()?.cast_signed());
                Body::Mail { channel, tag, bytes: r.bytes(r.remaining())?.to_vec() }
            }
            7 => {
                let act = r.u8()?;
                let act = CvAct::ALL.into_iter().find(|a| *a as u8 == act)?;
                Body::Cv { act, cv: r.u32()? }
            }
            9 => Body::Credit { bytes: r.u64()? },
            10 => Body::Report(Report::decode(r)?),
            _ => return None,
        })
    }
}

/// The body of several messages, each of which is gone when its bytes are there.
pub(super) fn combine(messages: impl Iterator<Item = Message>) -> Vec<u8> {
    let mut body = vec![8];
    for message in messages {
        let bytes = wire::encode(&message);
        drop(message);
        let length = u32::try_from(bytes.len()).expect("invariant: below 4 GiB");
        body.reserve_exact(4 + bytes.len());
        body.extend(length.to_le_bytes());
        body.extend(bytes);
    }
    body
}

fn combined(bytes: &[u8]) -> Result<Vec<Message>> {
    let mut r = Reader::new(bytes);
    let mut messages = Vec::new();
    while r.remaining() > 0 {
        let part = r.u32().and_then(|length| r.bytes(length as usize));
        let part = part.ok_or_else(|| Error::new(Kind::Protocol, "combined messages cut off"))?;
        messages.push(wire::decode(part)?);
    }
    Ok(messages)
}

fn text(r: &mut Reader<'_>) -> Option<String> {
    Some(String::from_utf8_lossy(r.bytes(r.remaining())?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::standstill::Awaits;
    use super::*;
    use crate::core::message::PageId;

    #[test]
    fn bodies_come_back_and_noise_is_refused() {
        let bodies = [
            Body::Protocol(Message::DiffsApplied),
            Body::Hello(Identity { process: 7, start: 9, machine: 1 << 40, network: 3 }),
            Body::Goodbye,
            Body::FailureReport { rank: NodeId(2), held: vec![LockId(5)], how: "gone".into() },
            Body::Abort { why: "x".into() },
            Body::Agreed { count: 1, fingerprint: 2 },
            Body::Mail { channel: 1, tag: -5, bytes: vec![1, 2, 3] },
            Body::Cv { act: CvAct::Granted, cv: 15 },
            Body::Cv { act: CvAct::Heard, cv: 15 },
            Body::Credit { bytes: 1 << 40 },
            Body::Report(Report {
                awaits: Awaits::Flag(7),
                sent: vec![0, 1 << 40],
                taken: vec![2, 3],
                handed: vec![4, 5],
                was_handed: 6,
            }),
            Body::Combined(vec![
                Message::DiffsApplied,
                Message::GetPage { page: PageId(7), phase: 0 },
            ]),
        ];
        for body in bodies {
            assert_eq!(Body::decode(&body.encode()).unwrap(), body);
        }
        for noise in [
            &[][..],
            &[9],
            &[1, 2],
            &[2, 2],
            &[6, 1],
            &[7, 9, 0, 0, 0, 0],
            &[3, 0, 0, 255, 255, 255, 255],
            &[0, 99],
            &[8, 2, 0, 0, 0, 4],
            &[8, 1, 0, 0, 0, 99],
            &[10, 1, 7, 0, 0, 0, 1, 0],
            &[10, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(Body::decode(noise).unwrap_err().kind(), Kind::Protocol);
        }
    }
}
