"""Choose the next of the messages that have arrived, if the job configures an order.

The parts and their order are Samza's, each only if it is configured: bootstrap streams before all others, staying with
a partition, higher priorities first, and among equals the job's own chooser, or turns. `stack` builds the choosers;
`consumer` puts them between the systems' consumers and their reader.
"""
