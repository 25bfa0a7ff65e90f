//! Tests that need more than one crate; each folder beside `src` is a `[[test]]` or a set of scripts.
//! Not here: unit tests and goldens, which lie beside the code they are about.
//! `tidy/` house rules, `interop/` real clients (scripts/interop); further folders as docs/architecture.md lists them.
