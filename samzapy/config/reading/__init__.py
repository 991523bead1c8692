"""How a job file is read: its text, its references, its keys and their kinds, and what has to stay secret."""
