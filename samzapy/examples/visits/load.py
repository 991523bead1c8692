"""Writes generated page views into the job's input.

python -m samzapy.examples.visits.load JOB.properties [--config key=value]...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from samzapy.errors import SamzapyError
from samzapy.examples.flights.job_file import job_from_arguments
from samzapy.examples.flights.load import load
from samzapy.examples.visits.events import page_views

VIEWS = "views"
#: How many are written.
COUNT = 20_000


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    try:
        count = load(job_from_arguments("visits.load", arguments), [(VIEWS, page_views(COUNT))])
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)  # noqa: T201
        return failure.exit_code
    print(f"{count:,} records written")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
