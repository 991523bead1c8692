"""`stores.NAME.accesslog.*`."""

from __future__ import annotations

from samzapy.api.stream import SystemStream
from samzapy.config.keys import Key, collect
from samzapy.config.kinds import BOOLEAN, integer
from samzapy.config.reader import Reader

_SUFFIX = "-access-log"

ENABLED = Key(
    "stores.{store}.accesslog.enabled",
    BOOLEAN,
    False,
    "Whether calls of the store are told on the stream CHANGELOG-access-log: what was done to which keys, and how long it "
    "took. Needs a changelog.",
)
SAMPLING_RATIO = Key(
    "stores.{store}.accesslog.sampling.ratio",
    integer(0, 100),
    50,
    "Percent of the calls that are told.",
)
KEYS = collect(globals())


def parse_access_log(reader: Reader, store: str, changelog: SystemStream | None) -> int | None:
    """Percent of the calls to tell, None for no access log."""
    ratio = reader.get(SAMPLING_RATIO, store=store)
    if not reader.get(ENABLED, store=store):
        return None
    if changelog is None:
        reader.warn(f"{ENABLED.at(store=store)}: has no effect without stores.{store}.changelog")
        return None
    return ratio


def access_log_stream(changelog: SystemStream) -> SystemStream:
    """The stream beside a changelog."""
    return SystemStream(changelog.system, f"{changelog.stream}{_SUFFIX}")
