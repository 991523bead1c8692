"""The overview of a job: the file of its page, the figures over time, and why it is slow or stuck."""
