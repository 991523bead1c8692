"""Departures per airport and hour of the schedule: tumbling windows over flights that are reported when they leave.

load   writes the departures into the job's input, in the order in which they left
task   the task
"""
