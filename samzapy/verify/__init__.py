"""`samzapy verify`: a job with a known outcome, faults while it runs, and independent checkers.

workload     seeded events with their partitions, and the job's task
target       the system and the master, the faults that are possible there, drawn from a seed, and the job's file
processes    the fault harness: processes of a job, started, watched, killed, stopped
scene        one job while it runs; traffic: the clients beside it
scenario     one job from its first event to the verdict, and the faults that strike it
streams      reads the streams and stores of a finished job as evidence
evidence     the records that the checkers look at, and the results that the inputs must have
checkers     pure functions over that evidence
campaign     the scenarios of one command, and their table
"""
