"""Visits to a site: sessions of page views, from a generator that gives the same for the same seed.

events   the page views
load     writes them into the job's input
task     the task
"""
