"""Keeps a task's local state: objects in a cache, changes in bytes, commits in an engine; and restores it after a
crash.

startup        opens and restores the stores of a container's tasks
opening        opens the stores of one task: settings, files, changelogs, stacks
task_stores    the stores of one task between two commits; task_store: one of them
kv             the stack that a task sees
rocksdb        the engine on disk
local          files on this machine: their places, and the check whether they may be used
changelog      the topic behind a store: checked, read, restored from
backup         snapshots of the files elsewhere
views          engines with another interface: heaps, cubes, sketches, text search, timers
side_inputs    stores that are filled from streams; standby: copies that follow a changelog
inspection     reads a store from outside its job
"""
