//! Locks and atomics of the admission path. The `model` feature swaps them for ones that a checker
//! schedules, so that the code under test is the code that ships.

#[cfg(feature = "model")]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic::AtomicBool};
#[cfg(not(feature = "model"))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::AtomicBool};

/// Locks. A panic while the lock was held leaves counters that are still whole (every step of
/// `Counters` saturates and none can fail half-way), and a gate that refuses for ever after one
/// panic would be a way to stop it, so poison is passed over.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
