"""A task's event time: one clock, fed by partitions and by the senders of intermediate streams."""
