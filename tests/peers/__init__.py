"""Software of others that the product is tested against, and the tests."""
