"""What Spark says of a failed action, as one line."""

from __future__ import annotations

import re

from samzapy.errors import (
    EnvironmentFailure,
    JobTakenOver,
    ProducerError,
    RecordTooLarge,
    SamzapyError,
    SerdeError,
    StoreRefused,
)
from samzapy.runner.spark.application import one_line

#: The last line of a Python worker's stack, which Spark passes on as text.
_OURS = re.compile(r"^samzapy\.errors\.(\w+): (.*)$", re.MULTILINE)
_BY_NAME = {kind.__name__: kind for kind in (SerdeError, StoreRefused, ProducerError, EnvironmentFailure)}
#: Those with more to say than a message, by what they are.
_IN_GENERAL: dict[str, type[SamzapyError]] = {
    RecordTooLarge.__name__: ProducerError,
    JobTakenOver.__name__: EnvironmentFailure,
}


def told_by(cause: Exception) -> SamzapyError:
    """The error that a worker has raised, or an EnvironmentFailure with what Spark says itself."""
    found = _OURS.findall(str(cause))
    if not found:
        return EnvironmentFailure(f"Spark gave up: {one_line(cause)}")
    name, message = found[-1]
    kind = _BY_NAME.get(name) or _IN_GENERAL.get(name, SamzapyError)
    return kind(message)
