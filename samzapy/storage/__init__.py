"""Keeps a task's local state: objects in a cache, changes in bytes, commits in an engine; and restores it after a
crash.

spec         the stores of the job file with their engines
opening      opens and restores the stores of a container's tasks: StoreSpec -> LocalFiles -> Store
store        one store of one task, and its states; the stores of one task between two commits
kv           the stack that a task sees
rocksdb      the engine on disk
local        files on this machine: their places, their opening, and the check whether they may be used
changelog    the topic behind a store: checked, read, restored from
backup       snapshots of the files elsewhere
views        engines with another interface: heaps, cubes, sketches, text search, timers
readback     checks that values survive their serde
inspection   reads a store from outside its job
"""
