//! The contract that users write and read.
