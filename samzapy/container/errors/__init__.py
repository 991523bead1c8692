"""Error policies: a message that fails is repeated, skipped, or made a dead letter, instead of ending the attempt.

Jobs without policies use none of these classes, so a policy costs only the jobs that ask for one.
"""
