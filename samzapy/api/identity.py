"""The id of an output in effectively-once: where it came from."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from samzapy.api.envelope import Headers

#: The header's name; its value is `topic/partition/offset/n`, and `topic/partition/offset/n@task` for an output that came
#: from a broadcast input, which every task reads.
ID_HEADER = "samzapy-id"


class OutputId(NamedTuple):
    """The position of the input an output came from, and its number among that input's outputs; for a broadcast input
    the task's name as well, else ""."""

    stream: str
    partition: int
    offset: int
    number: int
    task: str = ""

    @classmethod
    def of(cls, headers: Headers | None) -> OutputId | None:
        """The id among a message's headers, None if it carries none. Raises ValueError on a malformed one."""
        for name, value in headers or ():
            if name == ID_HEADER:
                stream, partition, offset, rest = (value or b"").decode().rsplit("/", 3)
                number, _, task = rest.partition("@")
                return cls(stream, int(partition), int(offset), int(number), unquote(task))
        return None
