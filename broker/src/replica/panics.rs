//! Panics in the tasks of replication: the broker ends with a reason, instead of going on without one of them.
//! Not here: how it ends (server.rs), panics of requests, which fail the request alone.
//! Any task. A task that ends because the runtime stops is none of it.
//! Kafka: ProcessTerminatingFaultHandler; a ReplicaFetcherThread that dies there fails its partitions.

use super::manager::ReplicaManager;
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::task::JoinError;

impl ReplicaManager {
    /// Runs a task to its end; a panic in it is reported.
    pub async fn watched(self: Arc<Self>, what: &'static str, task: impl Future<Output = ()>) {
        if AssertUnwindSafe(task).catch_unwind().await.is_err() {
            self.report_panic(what);
        }
    }

    /// Reports that a task was joined with an error, unless the runtime is stopping.
    pub(super) fn report_join_error(&self, what: &'static str, error: &JoinError) {
        if error.is_panic() {
            self.report_panic(what);
        }
    }

    fn report_panic(&self, what: &'static str) {
        tracing::error!(target: "kafka.server.ReplicaManager", "{what} has panicked");
        self.panicked.send_if_modified(|panicked| {
            let first = panicked.is_none();
            panicked.get_or_insert(what);
            first
        });
    }

    /// Completes with the task that panicked.
    pub async fn panicked(&self) -> &'static str {
        let mut panicked = self.panicked.subscribe();
        // the sender lives in self, so the wait cannot fail
        let what = panicked.wait_for(Option::is_some).await;
        what.ok().and_then(|what| *what).unwrap_or("a task")
    }
}

#[cfg(test)]
mod tests {
    use crate::replica::replica_test::Broker;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_panic_is_told_and_an_abort_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let broker = Broker::start(dir.path()).await;
        let replicas = &broker.replicas;
        let endless = Arc::clone(replicas).watched("a fetcher", std::future::pending());
        let endless = tokio::spawn(endless);
        endless.abort();
        replicas.report_join_error("a fetcher", &endless.await.unwrap_err());
        assert_eq!(*replicas.panicked.borrow(), None);

        let cut = tokio::task::spawn_blocking(|| panic!("of the test"));
        replicas.report_join_error("a cut", &cut.await.unwrap_err());
        let watched = Arc::clone(replicas).watched("a fetcher", async { panic!("of the test") });
        watched.await;
        assert_eq!(replicas.panicked().await, "a cut");
    }
}
