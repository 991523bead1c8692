"""Control messages of intermediate streams: how they are written, found among the messages, and added up.

sender     from a task to every partition of a stream
record     the record
decode     cuts a batch at them
upstream   what all senders of a task's partitions say together
"""
