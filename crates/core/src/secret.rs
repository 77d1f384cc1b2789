//! Values that must not be printed, logged or serialised by accident.

use std::fmt;

use zeroize::Zeroize;

/// A secret: no `Serialize`, a `Debug` that shows nothing, and memory that is wiped when it goes.
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Takes the value into custody.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself. Call this only where its bytes leave the process or are hashed.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Zeroize + Clone> Clone for Secret<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_the_secret() {
        assert_eq!(format!("{:?}", Secret::new("hunter2".to_owned())), "Secret(…)");
    }
}
