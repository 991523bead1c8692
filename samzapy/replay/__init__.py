"""Replays a slice of a production input on a developer's machine: `samzapy replay`.

The state of one task is rebuilt as of the last commit before an offset, in a folder that is removed afterwards. Then
the task gets the same records again, in a real container. Nothing is written to a system: no producer is made,
consumers have no group and read committed records.

    plan         from a request to the state and the records of a replay
    history      the commits that the checkpoint topic still has, and whether a changelog still has their state
    past         clients that only read, and end where the replay ends; the input records in order
    attempt      one container with one task, a step at a time; its class under watch: failures, the debugger
    recording    outputs and changes of state, by step
"""
