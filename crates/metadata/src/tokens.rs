//! Delegation tokens by id.
//! Not here: their secrets (derived by brokers), expiry (crates/controller).
//! Pure data. Kafka: DelegationTokenImage, TokenInformation; KIP-48, KIP-900.

use crate::Map;
use crate::image::ReplayError;
use kavka_protocol::messages::DelegationTokenRecord;
use std::sync::Arc;

/// A token without its secret. Principals as `type:name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegationToken {
    pub owner: Arc<str>,
    pub requester: Arc<str>,
    pub renewers: Vec<Arc<str>>,
    pub issue_timestamp_ms: i64,
    pub max_timestamp_ms: i64,
    pub expiration_timestamp_ms: i64,
}

/// All tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokensImage {
    pub tokens: Map<Arc<str>, Arc<DelegationToken>>,
}

impl TokensImage {
    pub(crate) fn replay(&mut self, record: &DelegationTokenRecord) {
        let token = DelegationToken {
            owner: Arc::from(&*record.owner),
            requester: Arc::from(&*record.requester),
            renewers: record
                .renewers
                .iter()
                .map(|renewer| Arc::from(&**renewer))
                .collect(),
            issue_timestamp_ms: record.issue_timestamp,
            max_timestamp_ms: record.max_timestamp,
            expiration_timestamp_ms: record.expiration_timestamp,
        };
        self.tokens
            .insert_mut(Arc::from(&*record.token_id), Arc::new(token));
    }

    pub(crate) fn replay_remove(&mut self, token_id: &str) -> Result<(), ReplayError> {
        if self.tokens.remove_mut(token_id) {
            Ok(())
        } else {
            Err(ReplayError::UnknownToken(token_id.to_owned()))
        }
    }

    pub(crate) fn to_records(&self) -> Vec<DelegationTokenRecord> {
        self.tokens
            .iter()
            .map(|(token_id, token)| DelegationTokenRecord {
                owner: (&*token.owner).into(),
                requester: (&*token.requester).into(),
                renewers: token
                    .renewers
                    .iter()
                    .map(|renewer| (&**renewer).into())
                    .collect(),
                issue_timestamp: token.issue_timestamp_ms,
                max_timestamp: token.max_timestamp_ms,
                expiration_timestamp: token.expiration_timestamp_ms,
                token_id: (&**token_id).into(),
                ..Default::default()
            })
            .collect()
    }
}
