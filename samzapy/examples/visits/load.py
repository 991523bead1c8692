"""Writes generated page views into the job's input.

python -m samzapy.examples.visits.load JOB.properties [--config key=value]...
"""

from __future__ import annotations

import sys

from samzapy.examples.flights.load import load_command
from samzapy.examples.visits.events import page_views

VIEWS = "views"
#: How many are written.
COUNT = 20_000


if __name__ == "__main__":
    sys.exit(load_command("visits.load", lambda _: [(VIEWS, page_views(COUNT))]))
