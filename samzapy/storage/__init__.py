"""A task's local state: objects in a cache, changes in bytes, commits in an engine, and the way back after a crash.

`kv` is the stack a task sees, `rocksdb` the engine on disk; `manager` is what a container talks to.
"""
