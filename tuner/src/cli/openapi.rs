//! `openapi`: the contract of the service.

use super::Failure;

/// Prints the document.
pub fn exec() -> Result<(), Failure> {
    super::print(&scavenger_schema::openapi::openapi())
}
