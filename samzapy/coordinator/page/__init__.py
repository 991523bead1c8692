"""The page of a job: its file, the figures that it draws over time, and its first sentence."""
