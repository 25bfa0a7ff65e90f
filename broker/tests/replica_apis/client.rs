//! A blocking client that sends one request after the other.
//! Not here: the requests (cases.rs).
//! One thread. Kafka: no counterpart.

use bytes::Bytes;
use kavka_protocol::{AnyRequest, AnyResponse, ApiKey, Request, Segment, frame};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A blocking connection that speaks frames.
pub struct Client {
    pub stream: TcpStream,
    correlation_id: i32,
}

impl Client {
    pub fn connect(address: &str) -> Client {
        Client {
            stream: TcpStream::connect(address).unwrap(),
            correlation_id: 0,
        }
    }

    pub fn send<R: Request>(&mut self, version: i16, request: &R) {
        self.correlation_id += 1;
        let segments =
            frame::encode_request(version, self.correlation_id, Some("cases".into()), request)
                .unwrap();
        for segment in segments {
            match segment {
                Segment::Bytes(bytes) => self.stream.write_all(&bytes).unwrap(),
                Segment::File(region) => self.stream.write_all(&region.read().unwrap()).unwrap(),
            }
        }
    }

    pub fn receive(&mut self, api_key: ApiKey, version: i16) -> AnyResponse {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).unwrap();
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut body).unwrap();
        let mut body = Bytes::from(body);
        let header = frame::decode_response_header(api_key, version, &mut body).unwrap();
        assert_eq!(header.correlation_id, self.correlation_id);
        let response = AnyResponse::decode(api_key, version, &mut body).unwrap();
        assert!(body.is_empty(), "{} bytes behind the response", body.len());
        response
    }

    pub fn call<R: Request>(&mut self, version: i16, request: &R) -> AnyResponse {
        self.send(version, request);
        self.receive(R::API_KEY, version)
    }

    pub fn call_any(&mut self, version: i16, request: &AnyRequest) -> AnyResponse {
        match request {
            AnyRequest::Produce(r) => self.call(version, r),
            AnyRequest::Fetch(r) => self.call(version, r),
            AnyRequest::ListOffsets(r) => self.call(version, r),
            AnyRequest::OffsetForLeaderEpoch(r) => self.call(version, r),
            AnyRequest::DeleteRecords(r) => self.call(version, r),
            AnyRequest::DescribeProducers(r) => self.call(version, r),
            AnyRequest::DescribeLogDirs(r) => self.call(version, r),
            AnyRequest::InitProducerId(r) => self.call(version, r),
            other => panic!("no case for {:?}", other.api_key()),
        }
    }
}
