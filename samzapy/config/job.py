"""The whole job as frozen values; what the rest of samzapy is built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from samzapy.api.stream import SystemStream
from samzapy.api.system import SystemSettings
from samzapy.config.spark import SparkConfig
from samzapy.config.stores import StoreConfig
from samzapy.config.streams import StreamConfig
from samzapy.config.task import TaskConfig


@dataclass(frozen=True)
class JobConfig:
    """A checked job file. `streams` holds an entry for every stream the file mentions; ask `stream(...)`, which falls
    back to the system's defaults. `serdes` maps names to class paths (built-in ones included). `raw` is the flat file
    with its overrides, values unresolved (`${env:X}` as written), for those who carry the job elsewhere;
    `resolved` has the values in clear."""

    name: str
    id: str
    task: TaskConfig
    systems: Mapping[str, SystemSettings]
    streams: Mapping[SystemStream, StreamConfig]
    stores: Mapping[str, StoreConfig]
    serdes: Mapping[str, str]
    container_count: int = 1
    grouper: str = "partition"
    default_system: str | None = None
    logged_store_base_dir: Path = Path("state")
    non_logged_store_base_dir: Path = Path("state")
    spark: SparkConfig = field(default_factory=SparkConfig)
    raw: Mapping[str, str] = field(default_factory=dict, repr=False)
    resolved: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()

    def stream(self, system_stream: SystemStream) -> StreamConfig:
        """The stream's configuration, from its own keys or its system's defaults."""
        known = self.streams.get(system_stream)
        if known is not None:
            return known
        settings = self.systems[system_stream.system]
        default = settings.default_stream
        own = settings.properties
        return StreamConfig(
            system_stream,
            key_serde=default.get("samza.key.serde") or own.get("samza.key.serde"),
            msg_serde=default.get("samza.msg.serde") or own.get("samza.msg.serde"),
            offset_default=default.get("samza.offset.default") or own.get("samza.offset.default") or "upcoming",
        )
