"""The job file, read once, checked as a whole, as frozen values."""
