"""`samzapy verify`: a job with a known outcome, faults while it runs, and independent checkers.

workload     seeded events with their partitions, and the job's task
target       the system and the master, the faults that are possible there, drawn from a seed, and the job's file
processes    the fault harness: processes of a job, started, watched, killed, stopped
scene        one job while it runs, and the clients next to it
scenario     one job from its first event to the verdict, and the faults that strike it
evidence     records from the streams and stores of a finished job
checkers     the results that the inputs must have, and pure functions over the evidence
campaign     the scenarios of one command, and their table
"""
