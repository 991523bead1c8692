"""How the cost of a message grows: with keys, values, messages, partitions, stores, skew, commits and containers."""
