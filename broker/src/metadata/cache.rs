//! The latest published image, and waiting for one that is new enough.
//! Not here: loading it (loader.rs).
//! Read from any task without a lock; written by the loader's task alone.
//! Kafka: org.apache.kafka.metadata.KRaftMetadataCache.

use arc_swap::ArcSwap;
use kavka_common::Offset;
use kavka_metadata::MetadataImage;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The image did not get there in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this broker has not seen offset {0} of the metadata log yet")]
pub struct NotVisible(pub Offset);

/// What the broker knows of the cluster.
pub struct MetadataCache {
    image: ArcSwap<MetadataImage>,
    published: watch::Sender<Offset>,
}

impl Default for MetadataCache {
    fn default() -> Self {
        MetadataCache {
            image: ArcSwap::from_pointee(MetadataImage::empty()),
            published: watch::Sender::new(-1),
        }
    }
}

impl MetadataCache {
    pub fn new() -> Self {
        MetadataCache::default()
    }

    /// The image as it is now; it does not change under the reader.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.image.load_full()
    }

    /// Offset of the last record that all parts of this broker have acted on.
    pub fn published_offset(&self) -> Offset {
        *self.published.borrow()
    }

    pub fn published(&self) -> watch::Receiver<Offset> {
        self.published.subscribe()
    }

    /// Waits until everything up to `offset` was acted on, so that a client that was told of a change finds it here.
    pub async fn wait_for(&self, offset: Offset, timeout: Duration) -> Result<(), NotVisible> {
        let mut published = self.published.subscribe();
        match tokio::time::timeout(timeout, published.wait_for(|at| *at >= offset)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(NotVisible(offset)),
        }
    }

    /// Waits until the image is as wanted. False: it did not get there in time.
    pub async fn wait_until(
        &self,
        wanted: impl Fn(&MetadataImage) -> bool,
        timeout: Duration,
    ) -> bool {
        let mut published = self.published.subscribe();
        let seen = published.wait_for(|_| wanted(&self.image.load()));
        matches!(tokio::time::timeout(timeout, seen).await, Ok(Ok(_)))
    }

    /// Replaces the image; for the loader, and for tests of what reads the cache.
    pub fn publish(&self, image: MetadataImage) {
        let offset = image.last_offset;
        self.image.store(Arc::new(image));
        self.published.send_replace(offset);
    }
}
