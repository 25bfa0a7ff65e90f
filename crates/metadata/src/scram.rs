//! SCRAM credentials by mechanism and user.
//! Not here: the exchange (crates/security), validation of changes (crates/controller).
//! Pure data. Kafka: ScramImage, ScramCredentialData; KIP-554, KIP-900.

use crate::Map;
use bytes::Bytes;
use kavka_protocol::messages::UserScramCredentialRecord;
use std::sync::Arc;

/// What the server keeps of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredential {
    pub salt: Bytes,
    pub stored_key: Bytes,
    pub server_key: Bytes,
    pub iterations: i32,
}

impl std::fmt::Debug for ScramCredential {
    /// Keys stay out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "ScramCredential(iterations={}, keys=[hidden])",
            self.iterations
        )
    }
}

/// All credentials. Mechanism numbers are those of the wire: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScramImage {
    pub credentials: Map<(i8, Arc<str>), ScramCredential>,
}

impl ScramImage {
    pub fn get(&self, mechanism: i8, user: &str) -> Option<&ScramCredential> {
        self.credentials.get(&(mechanism, Arc::from(user)))
    }

    pub(crate) fn replay(&mut self, record: &UserScramCredentialRecord) {
        let credential = ScramCredential {
            salt: Bytes::copy_from_slice(&record.salt),
            stored_key: Bytes::copy_from_slice(&record.stored_key),
            server_key: Bytes::copy_from_slice(&record.server_key),
            iterations: record.iterations,
        };
        self.credentials
            .insert_mut((record.mechanism, Arc::from(&*record.name)), credential);
    }

    pub(crate) fn replay_remove(&mut self, mechanism: i8, user: &str) {
        self.credentials.remove_mut(&(mechanism, Arc::from(user)));
    }

    pub(crate) fn to_records(&self) -> Vec<UserScramCredentialRecord> {
        self.credentials
            .iter()
            .map(
                |((mechanism, user), credential)| UserScramCredentialRecord {
                    name: (&**user).into(),
                    mechanism: *mechanism,
                    salt: credential.salt.clone(),
                    stored_key: credential.stored_key.clone(),
                    server_key: credential.server_key.clone(),
                    iterations: credential.iterations,
                    ..Default::default()
                },
            )
            .collect()
    }
}
