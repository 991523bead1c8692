"""Writes the inputs of a joining job, on whatever system its file names.

python -m samzapy.examples.joins.load JOB.properties [--config key=value]...
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from samzapy.errors import EnvironmentFailure
from samzapy.examples.flights.dataset import Event
from samzapy.examples.flights.load import load_command
from samzapy.examples.joins.generated import impressions_and_clicks, profiles_and_settings, views_and_users
from samzapy.examples.joins.recorded import departures, weather

#: By job name: the streams, and what makes their events.
_INPUTS: dict[str, tuple[tuple[str, str], Callable[[], tuple[list[Event], list[Event]]]]] = {
    "profiles-settings": (("member-profiles", "member-settings"), profiles_and_settings),
    "view-regions": (("user-views", "user-regions"), views_and_users),
    "impressions-clicks": (("impressions", "clicks"), impressions_and_clicks),
    "departures-weather": (("airport-departures", "airport-weather"), lambda: (departures(), weather())),
}


def inputs_of(job: str) -> list[tuple[str, list[Event]]]:
    """The streams of a job with their events. Raises EnvironmentFailure for a job that is none of these examples."""
    if job not in _INPUTS:
        raise EnvironmentFailure(f"no inputs for job '{job}'; known: {', '.join(_INPUTS)}")
    streams, events = _INPUTS[job]
    return list(zip(streams, events(), strict=True))


if __name__ == "__main__":
    sys.exit(load_command("joins.load", lambda job: inputs_of(job.name)))
