//! A string that is a slice of the frame it arrived in.
//! Not here: length prefixes (`reader`, `encoder`).
//! Pure data. A long-lived copy of a short string should be `detached`, or it keeps its whole frame in memory.
//! Kafka: java.lang.String fields of the generated messages.

use bytes::Bytes;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// UTF-8 text in shared bytes. Cheap to clone.
#[derive(Clone, Default)]
pub struct StrBytes(Bytes);

impl StrBytes {
    /// The empty string.
    pub const fn new() -> Self {
        StrBytes(Bytes::new())
    }

    pub const fn from_static(text: &'static str) -> Self {
        StrBytes(Bytes::from_static(text.as_bytes()))
    }

    /// Checks that the bytes are UTF-8.
    pub fn from_utf8(bytes: Bytes) -> Result<Self, std::str::Utf8Error> {
        std::str::from_utf8(&bytes)?;
        Ok(StrBytes(bytes))
    }

    pub fn as_str(&self) -> &str {
        // Topic names are compared and hashed on hot paths; checking them again each time would show there.
        #[allow(unsafe_code)]
        // SAFETY: every constructor takes a `&str`, a `String` or bytes that were checked, and bytes never change.
        unsafe {
            std::str::from_utf8_unchecked(&self.0)
        }
    }

    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// A copy in memory of its own, for values that outlive the frame.
    pub fn detached(&self) -> StrBytes {
        StrBytes(Bytes::copy_from_slice(&self.0))
    }
}

impl Deref for StrBytes {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for StrBytes {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for StrBytes {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for StrBytes {
    fn from(text: &str) -> Self {
        StrBytes(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for StrBytes {
    fn from(text: String) -> Self {
        StrBytes(Bytes::from(text.into_bytes()))
    }
}

impl From<&String> for StrBytes {
    fn from(text: &String) -> Self {
        StrBytes::from(text.as_str())
    }
}

impl From<Arc<str>> for StrBytes {
    fn from(text: Arc<str>) -> Self {
        StrBytes::from(&*text)
    }
}

impl From<&Arc<str>> for StrBytes {
    fn from(text: &Arc<str>) -> Self {
        StrBytes::from(&**text)
    }
}

impl From<&StrBytes> for Arc<str> {
    fn from(text: &StrBytes) -> Self {
        Arc::from(text.as_str())
    }
}

impl From<StrBytes> for Arc<str> {
    fn from(text: StrBytes) -> Self {
        Arc::from(text.as_str())
    }
}

impl From<StrBytes> for String {
    fn from(text: StrBytes) -> Self {
        text.as_str().to_owned()
    }
}

impl fmt::Display for StrBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for StrBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq for StrBytes {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for StrBytes {}

impl PartialEq<str> for StrBytes {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for StrBytes {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for StrBytes {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<StrBytes> for str {
    fn eq(&self, other: &StrBytes) -> bool {
        self == other.as_str()
    }
}

impl PartialEq<StrBytes> for &str {
    fn eq(&self, other: &StrBytes) -> bool {
        *self == other.as_str()
    }
}

impl PartialOrd for StrBytes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StrBytes {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for StrBytes {
    /// As `str` does, so that maps keyed by `StrBytes` can be asked with a `&str`.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}
