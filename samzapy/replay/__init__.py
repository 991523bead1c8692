"""Replays a slice of a production input on a developer's machine: `samzapy replay`.

The state of one task is rebuilt as of the last commit before an offset, in a folder that is removed afterwards. Then
the task gets the same records again, in a real container. Nothing is written to a system: no producer is made,
consumers have no group and read committed records.

    history      the commits that the checkpoint topic still has: state and positions belong together
    evidence     whether a changelog still holds the state of a commit
    past         clients that only read, and end where the replay ends
    feed         the places of a command line, and the input records in the order of the replay
    recording    outputs and changes of state, by step; two replays side by side
    user_class   the task's class under watch: failures, the debugger, another version of it
    attempt      one container with one task, a step at a time
    plan         from a request to the state and the records of a replay
    session      runs a plan
"""
