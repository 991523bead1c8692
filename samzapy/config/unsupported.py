"""Keys of Samza that samzapy knows and does not act on: some are of no use here, some would change what a job does."""

from __future__ import annotations

import re

_NO_EFFECT: tuple[tuple[str, str], ...] = (
    (r"app\.(class|runner\.class|mode|run\.id)", "a job is its task.class; `samzapy run` is the runner"),
    (r"job\.factory\.class", "--runner and job.spark.master say where containers run"),
    (r"job\.(coordinator|jmx|autosizing|debounce|security|diagnostics|drain-monitor)\..*", "no counterpart"),
    (r"job\.coordinator\..*|job\.checkpoint\.validation\.enabled", "no counterpart"),
    (r"job\.config\..*", "samzapy takes one file and --config key=value"),
    (r"job\.container\.(thread|commit|restore|heartbeat|task)\..*", "a container has one thread"),
    (
        r"job\.systemstreampartition\.input\.expansion\.enabled",
        "with state, new partitions always go to their keys' tasks",
    ),
    (r"job\.(systemstreampartition|system)\.(matcher|input|stream)\..*", "no counterpart"),
    (r"(yarn|cluster-manager|container|blob\.store|fs)\..*", "Spark places and limits containers"),
    (r"task\.(opts|java\.home|execute|command\.class|log4j\..*)", "there is no JVM to launch"),
    (r"task\.live\.checkpoint\.max\.age", "there is one checkpoint format"),
    (r"task\.transactional\.state\..*", "local stores never hold more than what was committed"),
    (r"task\.commit\.(max\.delay|timeout)\.ms|task\.commit\.skip\..*", "a commit is never skipped"),
    (r"task\.(callback\.(watermark|drain)|watermark\.quorum)\..*", "no counterpart"),
    (r"task\.(poll\.interval\.ms|name\.grouper\.factory)", "no counterpart"),
    (r"systems\.[^.]+\.(.+\.)?samza\.delete\.committed\.messages", "no counterpart"),
    (r"streams\.[^.]+\.samza\.(delete\.committed\.messages|broadcast)", "no counterpart"),
    (
        r"stores\.(.+\.)?(backup|restore)\.factories",
        "stores.X.changelog and stores.X.backup.path say where state is kept",
    ),
    (r"metrics\.timer\..*", "timers are always on"),
)
_REFUSED: tuple[tuple[str, str], ...] = (
    (
        r"stores\..+\.side\.inputs\.processor\.serialized\.instance",
        "an object of the JVM: name a SideInputsProcessor class with side.inputs.processor.factory",
    ),
    (r"job\.elasticity\.factor", "elasticity is not supported: leave it out or set 1"),
)
#: What a regular expression stands for, as people write it; in this order.
_READABLE = (
    (r"(\..*)?", "[.*]"),
    (r"(.+\.)?", "[*.]"),
    (r"\.", "."),
    (r"[^.]+", "*"),
    (r".+", "*"),
    (r".*", ".*"),
)
_NEUTRAL = {"", "1"}


def no_effect(key: str) -> str | None:
    """Why `key` has no effect; None if it is not a key of this kind."""
    return next((reason for regex, reason in _NO_EFFECT if re.fullmatch(regex, key)), None)


def refused(key: str, value: str) -> str | None:
    """Why a job with this key cannot run as its author expects; None if it can."""
    if value in _NEUTRAL:
        return None
    return next((reason for regex, reason in _REFUSED if re.fullmatch(regex, key)), None)


def is_refusable(key: str) -> bool:
    """Whether `key` is known here at all, whatever its value."""
    return any(re.fullmatch(regex, key) for regex, _ in _REFUSED)


def unsupported() -> list[tuple[str, str, str]]:
    """The keys of Samza that mean nothing here or are refused: (key, * for any part and a|b for either, what happens, why)."""
    ignored = [(_readable(regex), "warning", reason) for regex, reason in _NO_EFFECT]
    return sorted([*ignored, *((_readable(regex), "refused", reason) for regex, reason in _REFUSED)])


def _readable(regex: str) -> str:
    for part, text in _READABLE:
        regex = regex.replace(part, text)
    return regex.replace("..*", ".*")
