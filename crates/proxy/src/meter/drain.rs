//! Answers whose client is gone: the rest is read for its usage, for a bounded time, and for a bounded
//! number of answers at once. A stop ends that too.
//!
//! Never here: what an answer cost.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::limits::{DRAIN_TIMEOUT, DRAINS_AT_ONCE};

/// Owns what is being drained.
#[derive(Debug)]
pub(crate) struct Drains {
    room: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
}

impl Default for Drains {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(DRAINS_AT_ONCE)), tasks: Mutex::default() }
    }
}

impl Drains {
    /// Runs a drain, which must end by itself. Without room for it, or outside of a runtime, it is
    /// dropped at once.
    pub(crate) fn take(&self, drain: impl Future<Output = ()> + Send + 'static) {
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(
            async move {
                drain.await;
                drop(room);
            },
            &runtime,
        );
    }

    /// Waits for all of them.
    pub(crate) async fn finish(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_TIMEOUT, all).await.is_err() {
            tasks.shutdown().await;
        }
    }
}
