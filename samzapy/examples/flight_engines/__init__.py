"""The flights again, one small job for each engine with a query interface of its own.

worst_delays    heap: the most delayed flights of each airline
airports        sketches: how many planes an airport saw, and the spread of its delays
plane_search    inverted index: planes by maker and model
delay_cube      cube: delays by airline, airport and month
latest_flights  an engine of one's own (`recent_items`): the last flights of each plane
report          what they have in common: the answer is sent when the inputs end

Each job has one task that reads all partitions, so that its answer is about all flights.
"""
