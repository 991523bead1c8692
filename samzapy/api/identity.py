"""The id of an output in effectively-once: who sent it, and from which input.

The header `samzapy-id` is text, eleven fields with colons between them:

    2:JOB:JOB-ID:SYSTEM:STREAM:STREAM-ID:PARTITION:TASK:KIND:OFFSET:NUMBER

    2          the format's version
    STREAM-ID  as the system gives it: a stream that is deleted and made anew has another one
    TASK       empty; the task's name for an output that came from a broadcast input, which every task reads
    KIND       `out` for an output, `letter` for a dead letter
    OFFSET     of the input the output came from
    NUMBER     of the output among those of its kind that came from that input, from 0

Names are percent-encoded, so no field holds a colon or a slash and different senders have different ids. What is before
OFFSET is the id's source: a receiver remembers (OFFSET, NUMBER) by source.

Version 1 had no version: `STREAM/PARTITION/OFFSET/NUMBER`, and `@TASK` behind it for a broadcast input. It is still
understood; its sources are other ones, `STREAM/PARTITION` and `STREAM/PARTITION@TASK`.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, unquote

from samzapy.api.envelope import Headers

ID_HEADER = "samzapy-id"
#: The kinds of records that carry an id.
OUTPUT, LETTER = "out", "letter"
_VERSION = "2:"
_FIELDS = 8


class Origin(NamedTuple):
    """A source, field by field. Version 1 named neither the job nor the system nor the stream's id: they are empty."""

    job: str
    job_id: str
    system: str
    stream: str
    stream_id: str
    partition: int
    task: str = ""
    kind: str = OUTPUT

    @property
    def source(self) -> str:
        """The source as ids of version 2 spell it."""
        return _VERSION + ":".join(quote(str(field), safe="") for field in self)


class OutputId(NamedTuple):
    """The source of an output, the offset of the input it came from, and its number among that input's outputs."""

    source: str
    offset: int
    number: int

    @classmethod
    def of(cls, headers: Headers | None) -> OutputId | None:
        """The id among a message's headers, None if it carries none. Raises ValueError for one that is malformed, or of
        a version that is not known here."""
        for name, value in headers or ():
            if name == ID_HEADER:
                text = (value or b"").decode()
                if "/" in text:
                    return cls._first_version(text)
                if not text.startswith(_VERSION):
                    version = text.partition(":")[0]
                    raise ValueError(f"header {ID_HEADER} has version {version!r:.50}: this samzapy knows 1 and 2")
                source, offset, number = text.rsplit(":", 2)
                return cls(source, int(offset), int(number))
        return None

    @classmethod
    def _first_version(cls, text: str) -> OutputId:
        stream, partition, offset, rest = text.rsplit("/", 3)
        number, at, task = rest.partition("@")
        return cls(f"{stream}/{int(partition)}{at}{unquote(task)}", int(offset), int(number))

    @property
    def origin(self) -> Origin:
        """The source, taken apart. Raises ValueError if it is malformed."""
        if self.source.startswith(_VERSION):
            fields = [unquote(field) for field in self.source.removeprefix(_VERSION).split(":")]
            if len(fields) != _FIELDS:
                raise ValueError(f"header {ID_HEADER} has source {self.source!r}: expected {_FIELDS} fields")
            job, job_id, system, stream, stream_id, partition, task, kind = fields
            return Origin(job, job_id, system, stream, stream_id, int(partition), task, kind)
        stream, _, rest = self.source.rpartition("/")
        partition, _, task = rest.partition("@")
        return Origin("", "", "", stream, "", int(partition), task)
