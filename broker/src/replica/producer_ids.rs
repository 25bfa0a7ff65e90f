//! Producer ids for this broker: served from blocks, the next of which is fetched before the last one runs out.
//! Not here: where blocks come from (the controller, by AllocateProducerIds, behind `ProducerIdSource`).
//! Any task; one fetch at a time, and a request waits only when both blocks are used up.
//! Kafka: RPCProducerIdManager; KIP-730.

use kavka_common::ProducerId;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Mutex as AsyncMutex;

/// A range of ids that belongs to this broker alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdBlock {
    pub first: i64,
    pub count: i32,
}

/// No block could be had: the controller is not there, or refused. Clients retry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no block of producer ids: {0}")]
pub struct NoProducerIds(pub String);

/// Hands out blocks, each to one broker only once.
pub trait ProducerIdSource: Send + Sync + 'static {
    fn allocate(
        &self,
    ) -> futures::future::BoxFuture<'static, Result<ProducerIdBlock, NoProducerIds>>;
}

/// How much of a block may be used before the next one is fetched.
const PREFETCH_AT_PERCENT: i64 = 90;

/// The block in use and the one after it.
#[derive(Debug, Default)]
struct Ids {
    first: i64,
    next: i64,
    end: i64,
    spare: Option<ProducerIdBlock>,
}

impl Ids {
    fn runs_low(&self) -> bool {
        self.spare.is_none()
            && (self.next - self.first) * 100 >= (self.end - self.first) * PREFETCH_AT_PERCENT
    }

    fn take(&mut self) -> Option<ProducerId> {
        if self.next >= self.end {
            let block = self.spare.take()?;
            self.first = block.first;
            self.next = block.first;
            self.end = block.first.saturating_add(i64::from(block.count));
        }
        let id = ProducerId(self.next);
        self.next += 1;
        Some(id)
    }
}

/// The broker's supply of producer ids.
pub struct ProducerIds {
    source: Arc<dyn ProducerIdSource>,
    ids: Mutex<Ids>,
    fetching: AsyncMutex<()>,
}

impl ProducerIds {
    pub fn new(source: Arc<dyn ProducerIdSource>) -> Arc<ProducerIds> {
        Arc::new(ProducerIds {
            source,
            ids: Mutex::default(),
            fetching: AsyncMutex::new(()),
        })
    }

    /// The next id.
    pub async fn next(self: &Arc<Self>) -> Result<ProducerId, NoProducerIds> {
        loop {
            let (taken, low) = {
                let mut ids = self.ids.lock();
                (ids.take(), ids.runs_low())
            };
            let Some(id) = taken else {
                self.fetch().await?;
                continue;
            };
            if low && self.fetching.try_lock().is_ok() {
                let this = Arc::clone(self);
                // its outcome does not matter here: who finds no id left asks again and is told
                tokio::spawn(async move { this.fetch().await });
            }
            return Ok(id);
        }
    }

    async fn fetch(&self) -> Result<(), NoProducerIds> {
        let _one_at_a_time = self.fetching.lock().await;
        if !self.ids.lock().runs_low() {
            return Ok(());
        }
        let block = self.source.allocate().await?;
        if block.count <= 0 || block.first < 0 {
            return Err(NoProducerIds(format!(
                "the controller gave the impossible block {block:?}"
            )));
        }
        self.ids.lock().spare = Some(block);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::sync::atomic::{AtomicI64, Ordering};

    struct Blocks(Arc<AtomicI64>);

    impl ProducerIdSource for Blocks {
        fn allocate(
            &self,
        ) -> futures::future::BoxFuture<'static, Result<ProducerIdBlock, NoProducerIds>> {
            let first = self.0.fetch_add(10, Ordering::SeqCst);
            async move {
                if first >= 100 {
                    return Err(NoProducerIds("no controller".into()));
                }
                Ok(ProducerIdBlock { first, count: 10 })
            }
            .boxed()
        }
    }

    #[tokio::test]
    async fn ids_are_unique_across_blocks_and_end_with_an_error() {
        let ids = ProducerIds::new(Arc::new(Blocks(Arc::new(AtomicI64::new(0)))));
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            assert!(seen.insert(ids.next().await.unwrap().get()));
        }
        assert_eq!(seen.len(), 100);
        assert!(ids.next().await.is_err());
    }

    #[tokio::test]
    async fn the_first_request_takes_one_block() {
        let counter = Arc::new(AtomicI64::new(0));
        let ids = ProducerIds::new(Arc::new(Blocks(counter.clone())));
        for _ in 0..8 {
            ids.next().await.unwrap();
        }
        assert_eq!(counter.load(Ordering::SeqCst), 10);
    }
}
