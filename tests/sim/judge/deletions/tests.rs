//! Bad histories of deletions.
