"""The object cache (L1) of a store: deserialized values over its uncommitted bytes."""
