"""OCI specifications, and NRI's messages about them."""
