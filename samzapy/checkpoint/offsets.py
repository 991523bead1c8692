"""Where a partition starts: the checkpoint, unless it is to be ignored; otherwise the stream's default."""

from __future__ import annotations

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange
from samzapy.config.streams import StreamConfig
from samzapy.errors import OffsetOutOfRange


def starting_offset(
    ssp: SystemStreamPartition,
    checkpoint: Checkpoint | None,
    stream: StreamConfig,
    log: OffsetRange,
    *,
    late: bool = False,
    goes_back: bool = False,
) -> int:
    """The first offset to process.

    A partition that is `late` came after the job's first start: until it has a committed offset, it is read from its
    oldest record, whatever the stream's default, since what it holds by now was meant for the job.

    A committed offset is used unless `reset.offset` is set, and must lie in the log (its end included): otherwise
    records were lost to retention, or the topic was made anew, and only the operator can say what to do. Where the log's
    end `goes_back`, as newest records can be deleted, a committed offset beyond it is used as well.
    Raises OffsetOutOfRange with both numbers and the command that repairs it.
    """
    committed = None if checkpoint is None or stream.reset_offset else checkpoint.input_offsets.get(ssp)
    if committed is None:
        return default_offset("oldest" if late and not stream.reset_offset else stream.offset_default, log)
    if log.oldest <= committed and (goes_back or committed <= log.upcoming):
        return committed
    key = f"systems.{ssp.system}.streams.{ssp.stream}.samza"
    repair = (
        "the committed offset is outside; to start from what is there (skipping what is gone), run the job once with "
        f"--config {key}.reset.offset=true --config {key}.offset.default=oldest"
    )
    raise OffsetOutOfRange(ssp, committed, log.oldest, log.upcoming, repair)


def default_offset(default: str, log: OffsetRange) -> int:
    """`oldest`, `upcoming`, or `newest` (the last record that is there)."""
    if default == "oldest":
        return log.oldest
    if default == "newest":
        return max(log.oldest, log.upcoming - 1)
    return log.upcoming
