//! Follows the metadata log and publishes each change, in order, first to the parts of the broker, then to everybody.
//! Not here: where the log comes from (quorum/ on this node, observer.rs from another), what a part does.
//! One task. The image becomes visible after the parts have acted on it: who sees a leader here can produce to it.
//! Kafka: org.apache.kafka.image.loader.MetadataLoader, kafka.server.metadata.BrokerMetadataPublisher.

use super::cache::MetadataCache;
use super::observer::{LogDiffers, Observer};
use crate::quorum::{Committed, MetadataQuorum};
use futures::future::BoxFuture;
use kavka_metadata::{MetadataDelta, MetadataImage};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A part of the broker that acts on metadata.
pub trait MetadataPublisher: Send {
    /// For the log.
    fn name(&self) -> &'static str;

    /// Acts on one change. The next change waits until this is done.
    fn publish<'a>(
        &'a mut self,
        delta: &'a MetadataDelta,
        image: &'a MetadataImage,
    ) -> BoxFuture<'a, ()>;
}

/// Where committed metadata comes from.
pub enum MetadataSource {
    Local(Box<MetadataImage>, mpsc::UnboundedReceiver<Committed>),
    Remote(Box<Observer>),
}

impl MetadataSource {
    /// The quorum's member on this node.
    pub fn local(quorum: &dyn MetadataQuorum) -> Self {
        let (image, committed) = quorum.subscribe();
        MetadataSource::Local(Box::new(image), committed)
    }
}

/// Loads until the source ends: at shutdown for the quorum of this node. An observer ends only if it must not go on;
/// what was published stands.
pub async fn load(
    source: MetadataSource,
    cache: Arc<MetadataCache>,
    mut publishers: Vec<Box<dyn MetadataPublisher>>,
) -> Result<(), LogDiffers> {
    match source {
        MetadataSource::Local(image, mut committed) => {
            if !image.is_empty() {
                let delta = MetadataDelta::between(&MetadataImage::empty(), &image);
                publish(&cache, &mut publishers, &delta, &image).await;
            }
            while let Some(change) = committed.recv().await {
                match change {
                    Committed::Batch(batch) => {
                        publish(&cache, &mut publishers, &batch.delta, &batch.image).await;
                    }
                    Committed::Snapshot(installed) => {
                        let delta = MetadataDelta::between(&cache.image(), &installed.image);
                        publish(&cache, &mut publishers, &delta, &installed.image).await;
                    }
                }
            }
            Ok(())
        }
        MetadataSource::Remote(mut observer) => loop {
            let (image, delta) = observer.next().await?;
            publish(&cache, &mut publishers, &delta, &image).await;
        },
    }
}

async fn publish(
    cache: &MetadataCache,
    publishers: &mut [Box<dyn MetadataPublisher>],
    delta: &MetadataDelta,
    image: &MetadataImage,
) {
    if !delta.is_empty() {
        for publisher in publishers {
            publisher.publish(delta, image).await;
        }
    }
    cache.publish(image.clone());
}
