//! Placeholder header; the owner of this room replaces it.
