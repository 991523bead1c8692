"""One container: a process's share of a job's tasks, from the lease to the last commit.

lifecycle     starts and stops it, in the order that is the guarantee; `restart` starts it again, `standby` follows one
builder       makes its parts from the configuration
run_loop      polls messages for a `TaskExecutor`; `commit_protocol` has the numbered steps of a commit
tasks         the tasks, and their executors: synchronous, batches, asynchronous
inputs        decoded messages and starting offsets; `side_inputs` has the stores that are filled from streams
outputs       collectors and producers
errors        policies for messages that fail
event_time    the tasks' clocks and timers
supervision   the lease, the job's owner, metrics, the process
"""
