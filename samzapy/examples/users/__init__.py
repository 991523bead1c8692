"""Two tables of a database joined by user: `python -m samzapy.examples.users.tables users.db` makes the database."""
