"""The tasks of the job files in `configs/`: examples to read, which every executor can import."""
