"""Which of the messages that have arrived come next, where a job says anything about that.

Samza's composition, each part only if it is configured: bootstrap streams before all others (`bootstrap`), staying with
a partition (`batching`), higher priorities first (`tiered`), and the job's own chooser, or turns (`turns`), among equals.
`consumer` puts the choice between the systems' consumers and whoever reads from them; `stack` knows the order.
"""
