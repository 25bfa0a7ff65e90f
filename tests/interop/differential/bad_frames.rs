//! Frames that no honest client sends: unknown keys and versions, cut bodies, bytes left over.
//! Not here: wrong values in well-formed requests (the other families).
//! Part of the duel; each frame goes out on a connection of its own. Kafka: SocketServer and RequestContext close.

use crate::Duel;
use futures::future::join_all;
use kavka_client::BrokerAddress;
use kavka_protocol::ApiKey;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Long enough for a JVM that compiles as it goes.
const PATIENCE: Duration = Duration::from_secs(3);

pub async fn run(duel: &mut Duel) {
    let mut frames: Vec<(String, Vec<u8>)> = vec![
        ("negative size".into(), vec![0xff, 0xff, 0xff, 0xff]),
        ("huge size".into(), vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
        ("size zero".into(), vec![0, 0, 0, 0]),
        ("three bytes".into(), framed(&[0, 3, 0])),
        ("unknown key".into(), framed(&header(999, 0))),
        ("negative key".into(), framed(&header(-3, 0))),
        ("a removed API".into(), framed(&header(4, 0))),
        ("HTTP".into(), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        (
            "unknown version of ApiVersions".into(),
            framed(&[&header(18, 99)[..], &[0]].concat()),
        ),
        (
            "unknown version of ApiVersions, header cut".into(),
            framed(&header(18, 99)),
        ),
        (
            "negative version of ApiVersions".into(),
            framed(&header(18, -1)),
        ),
    ];
    for key in [
        0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 20, 21, 22, 23, 32, 37, 42, 44, 47, 60,
        75,
    ] {
        let name = ApiKey::try_from(key).map_or("?", |key| key.name());
        frames.push((format!("{name} of version 99"), framed(&header(key, 99))));
        let newest = ApiKey::try_from(key)
            .ok()
            .and_then(|key| key.versions())
            .map_or(0, |versions| *versions.end());
        frames.push((
            format!("{name} v{newest} without a body"),
            framed(&header(key, newest)),
        ));
        let mut greedy = header(key, newest);
        // A flexible header's empty tags, then counts that promise four billion elements.
        greedy.extend_from_slice(&[
            0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0xff, 0xff, 0x0f,
        ]);
        frames.push((
            format!("{name} v{newest} with endless counts"),
            framed(&greedy),
        ));
    }
    // All at once: most of the time goes into waiting for silence.
    let answers = join_all(frames.iter().map(|(_, frame)| async {
        tokio::join!(
            exchange(duel.theirs.address(), frame),
            exchange(duel.ours.address(), frame)
        )
    }))
    .await;
    for ((what, _), (theirs, ours)) in frames.into_iter().zip(answers) {
        duel.judge(&format!("frame: {what}"), &theirs, &ours);
    }
}

fn header(key: i16, version: i16) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&key.to_be_bytes());
    bytes.extend_from_slice(&version.to_be_bytes());
    bytes.extend_from_slice(&7_i32.to_be_bytes());
    bytes.extend_from_slice(&[0, 1, b'c']);
    bytes
}

fn framed(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a short frame");
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// What comes back: the start of an answer, a closed connection, or silence.
async fn exchange(address: &BrokerAddress, frame: &[u8]) -> Value {
    let talk = async {
        let mut stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.write_all(frame).await?;
        let mut answer = vec![0; 64];
        let n = stream.read(&mut answer).await?;
        answer.truncate(n);
        std::io::Result::Ok(answer)
    };
    match timeout(PATIENCE, talk).await {
        Err(_) => json!({"end": "silence"}),
        Ok(Err(_)) => json!({"end": "closed"}),
        Ok(Ok(answer)) if answer.is_empty() => json!({"end": "closed"}),
        // Length and the list of APIs differ; correlation id and error code must not.
        Ok(Ok(answer)) => json!({"end": "answer", "start": answer.get(4..10)}),
    }
}
