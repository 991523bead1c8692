"""What `samzapy verify` runs: a workload whose outcome tells everything, faults while it runs, and independent checkers.

workload     seeded events, and the fold that says what must become of them
task         the job's task; job: its properties
schedule     which faults, and when, drawn from a seed
faults       SIGKILL, SIGSTOP and broker bounces, of our own processes only
scenario     one job from its first event to the verdict; feeder and watcher beside it
evidence     what is read afterwards: inputs, outputs, changelogs, local stores, checkpoints
checkers     pure functions over that evidence; promises: which of their findings a guarantee allows
campaign     the scenarios of one command; soak: random ones until the time is over
"""
