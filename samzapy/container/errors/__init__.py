"""Error policies: what a task does with a message that fails, if its job does more than fail with it.

Jobs without policies use none of these classes, so a policy costs only the jobs that ask for one.
"""
