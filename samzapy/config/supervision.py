"""The keys for watching a running job: its logs, its stalls, its positions in a consumer group, its stores."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from samzapy.config.reading.keys import BOOLEAN, FOLDER, LIST, Key, choice, collect, integer
from samzapy.config.reading.reader import Reader


@dataclass(frozen=True)
class LogConfig:
    """The log of a job: lines from `level` on (a number of Python's `logging`), as text or as JSON, on the terminal and
    in files below `folder`, each up to `max_bytes` large, with `files` older ones."""

    level: int = logging.INFO
    as_json: bool = False
    folder: Path = Path(".samzapy/logs")
    max_bytes: int = 10_485_760
    files: int = 5


@dataclass(frozen=True)
class QueryConfig:
    """`enabled`: the stores of the running job answer queries. `keyed`: the stores with keys that are the keys of the
    input messages. `most`, `most_bytes`: entries and bytes of one page. `timeout_ms`: the longest time for a
    container's answer."""

    enabled: bool = False
    keyed: tuple[str, ...] = ()
    most: int = 1_000
    most_bytes: int = 1_048_576
    timeout_ms: int = 5_000


@dataclass(frozen=True)
class SupervisionConfig:
    """`stall_ms`: milliseconds without getting on after which a container says so, 0 for never. `stall_fails`: its
    attempt ends then. `lag_ms`: milliseconds between two looks at the ends of the inputs. `mirror`: committed positions
    are written to a consumer group named after the job. `query`: how its stores are read from outside."""

    log: LogConfig = field(default_factory=LogConfig)
    stall_ms: int = 30_000
    stall_fails: bool = False
    lag_ms: int = 5_000
    mirror: bool = True
    query: QueryConfig = field(default_factory=QueryConfig)


LOG_LEVEL = Key(
    "job.log.level",
    choice("debug", "info", "warning", "error"),
    "info",
    "The lowest level of log lines to show and keep, including the task's own lines.",
)
LOG_FORMAT = Key("job.log.format", choice("text", "json"), "text", "The form of a log line.")
LOG_DIR = Key(
    "job.log.dir",
    FOLDER,
    ".samzapy/logs",
    "Folder of the logs. It has a folder for the job, with a file for the driver and one for each container on "
    "the container's machine.",
)
LOG_MAX_BYTES = Key(
    "job.log.max.bytes",
    integer(10_000, 2**40),
    10_485_760,
    "Maximum bytes of a log file. A full file is renamed, and a new one begins.",
)
LOG_FILES = Key(
    "job.log.files", integer(1, 1_000), 5, "Number of older log files to keep, of the driver and of each container."
)
STALL_MS = Key(
    "task.stall.ms",
    integer(0, 86_400_000),
    30_000,
    "Milliseconds without progress after which a container counts as stalled. The status shows the reason. 0: never.",
)
STALL_POLICY = Key(
    "task.stall.policy",
    choice("report", "fail"),
    "report",
    "The reaction to a stall in the user's code: report it, or fail, so that another attempt starts. With fail, a "
    "local run ends.",
)
LAG_INTERVAL_MS = Key(
    "job.lag.interval.ms",
    integer(100, 3_600_000),
    5_000,
    "The interval in milliseconds at which a container reads the ends of its inputs, with one request per broker, "
    "and copies positions to the consumer group.",
)
MIRROR = Key(
    "job.offsets.mirror",
    BOOLEAN,
    True,
    "Whether to copy committed positions to a consumer group with the job's name (NAME-ID), for tools that show "
    "lag. No start reads them.",
)
QUERY_ENABLED = Key(
    "job.query.enabled",
    BOOLEAN,
    False,
    "Whether the driver answers `GET /stores/NAME/KEY` from the running job's stores. It returns committed "
    "entries, and needs the token that reads.",
)
QUERY_KEYED = Key(
    "job.query.keyed.stores",
    LIST,
    (),
    "Stores with the same keys as the input messages, in the same bytes. A query for a key then asks one task, "
    "otherwise all tasks.",
)
QUERY_MOST = Key(
    "job.query.page.max.entries", integer(1, 100_000), 1_000, "Maximum number of entries in one page of a query."
)
QUERY_MOST_BYTES = Key(
    "job.query.page.max.bytes",
    integer(1_024, 8_388_608),
    1_048_576,
    "Maximum bytes of keys and values in one page of a query.",
)
QUERY_TIMEOUT_MS = Key(
    "job.query.timeout.ms",
    integer(100, 60_000),
    5_000,
    "Milliseconds that a container may take to answer a query. After that the answer is 503.",
)
KEYS = collect(globals())

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def parse_supervision(reader: Reader, stores: Collection[str]) -> SupervisionConfig:
    """Read the keys of this module. `stores`: the names of the job's stores."""
    log = LogConfig(
        _LEVELS[reader.get(LOG_LEVEL)],
        reader.get(LOG_FORMAT) == "json",
        Path(reader.get(LOG_DIR) or ".samzapy/logs"),
        reader.get(LOG_MAX_BYTES),
        reader.get(LOG_FILES),
    )
    return SupervisionConfig(
        log,
        reader.get(STALL_MS),
        reader.get(STALL_POLICY) == "fail",
        reader.get(LAG_INTERVAL_MS),
        reader.get(MIRROR),
        _query(reader, stores),
    )


def _query(reader: Reader, stores: Collection[str]) -> QueryConfig:
    keyed = reader.get(QUERY_KEYED)
    for name in keyed:
        if name not in stores:
            reader.problem(QUERY_KEYED.name, f"expected names of stores ({', '.join(sorted(stores)) or 'none'})", name)
    most, most_bytes = reader.get(QUERY_MOST), reader.get(QUERY_MOST_BYTES)
    return QueryConfig(reader.get(QUERY_ENABLED), tuple(keyed), most, most_bytes, reader.get(QUERY_TIMEOUT_MS))
