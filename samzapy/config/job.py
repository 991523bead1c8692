"""The whole job as frozen values, and the keys `job.*` except `job.spark.*` and `job.clock.*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from samzapy.api.context import JobContext
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import SystemSettings
from samzapy.config.event_time import JobClockConfig
from samzapy.config.metrics import PrometheusConfig, ReporterConfig
from samzapy.config.reading.classes import GROUPER as GROUPER_KIND
from samzapy.config.reading.keys import BOOLEAN, FOLDER, HOSTS, TEXT, Key, collect, integer, optional
from samzapy.config.reading.keys import NAME as NAME_KIND
from samzapy.config.reading.reader import Reader
from samzapy.config.spark import SparkConfig
from samzapy.config.stores import StoreConfig
from samzapy.config.streams import StreamConfig
from samzapy.config.supervision import SupervisionConfig
from samzapy.config.tasks import TaskConfig
from samzapy.config.tasks.checkpoint import StateCheckpointConfig


@dataclass(frozen=True)
class PlacementConfig:
    """`host_affinity`: containers return to the host that has their state. `copies`: number of copies of each task's
    logged stores, the active one included. `orphan_ttl_ms`: age at which an unused local store is removed, -1 for
    never."""

    host_affinity: bool = False
    copies: int = 1
    orphan_ttl_ms: int = 604_800_000

    @property
    def standbys(self) -> int:
        """Standby containers for each container."""
        return self.copies - 1

    @property
    def chooses(self) -> bool:
        """Whether it matters where a container runs."""
        return self.host_affinity or self.copies > 1


@dataclass(frozen=True)
class JobConfig:
    """A checked job file: builders take the arguments of constructors from it.

    `streams` has an entry for every stream that the file mentions; `stream(...)` falls back to the system's defaults.
    `stream_ids` are the streams with keys `streams.ID.*`. `serdes` maps names to class paths, including built-in ones.
    `handover_ms`: the time for which a new run waits for the previous one to commit and let go. `timers_store` names
    the store of the tasks' timers, None for a job without. `cache_max_bytes`: memory of the object caches of one
    container. `raw` is the flat file with its overrides and unresolved values (`${env:X}` as written), to carry the job
    elsewhere. `resolved` has the values in clear; its `repr` hides secrets. `warnings` are sentences about oddities
    that do not stop the job. `folder`: the folder of the job file; the job may import modules from there; None for a
    job of pairs.
    """

    name: str
    id: str
    task: TaskConfig
    systems: Mapping[str, SystemSettings]
    streams: Mapping[SystemStream, StreamConfig]
    stores: Mapping[str, StoreConfig]
    serdes: Mapping[str, str]
    timers_store: str | None = None
    container_count: int = 1
    grouper: str = "partition"
    default_system: str | None = None
    logged_store_base_dir: Path = Path("state")
    non_logged_store_base_dir: Path = Path("state")
    cache_max_bytes: int = 268_435_456
    placement: PlacementConfig = field(default_factory=PlacementConfig)
    spark: SparkConfig = field(default_factory=SparkConfig)
    clock: JobClockConfig = field(default_factory=JobClockConfig)
    state_checkpoint: StateCheckpointConfig = field(default_factory=StateCheckpointConfig)
    startpoints: bool = True
    page_port: int | None = None
    page_hosts: tuple[str, ...] = ()
    handover_ms: int = 10_000
    metrics_reporters: tuple[ReporterConfig, ...] = ()
    prometheus: PrometheusConfig = field(default_factory=PrometheusConfig)
    supervision: SupervisionConfig = field(default_factory=SupervisionConfig)
    stream_ids: Mapping[str, SystemStream] = field(default_factory=dict)
    raw: Mapping[str, str] = field(default_factory=dict, repr=False)
    resolved: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()
    folder: Path | None = None

    @property
    def job_name(self) -> str:
        """Name and id in one word, unique for each job. The last hyphen separates them: hyphens of the id are written
        as `~`, which neither of them may contain."""
        return f"{self.name}-{self.id.replace('-', '~')}"

    def offset_default(self, ssp: SystemStreamPartition) -> str:
        """The `offset.default` of a partition's stream."""
        return self.stream(ssp.system_stream).offset_default

    @property
    def context(self) -> JobContext:
        """Name, id and keys, as tasks and plug-ins get them."""
        return JobContext(self.name, self.id, self.resolved)

    def base_dir(self, store: StoreConfig) -> Path:
        """The folder of the store's local files."""
        return self.logged_store_base_dir if store.changelog is not None else self.non_logged_store_base_dir

    def stream(self, system_stream: SystemStream) -> StreamConfig:
        """The configuration of a stream: its own keys, else the defaults of its system."""
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


NAME = Key(
    "job.name",
    NAME_KIND,
    None,
    "The job's name: part of the checkpoint topic, the transactional ids and the folders of its stores.",
    "required",
    ("app.name",),
)
ID = Key("job.id", NAME_KIND, "1", "Distinguishes jobs of one name.", otherwise=("app.id",))
DEFAULT_SYSTEM = Key("job.default.system", TEXT, None, "The system of streams without a system in their name.")
CHANGELOG_SYSTEM = Key(
    "job.changelog.system", TEXT, None, "The system of changelogs without a system in their name.", "job.default.system"
)
CONTAINER_COUNT = Key(
    "job.container.count",
    integer(1, 100_000),
    1,
    "Number of containers for the tasks.",
    otherwise=("yarn.container.count",),
)
CACHE_MAX_BYTES = Key(
    "container.cache.max.bytes",
    integer(1, 2**53),
    268_435_456,
    "Bytes of memory for the object caches of one container. Its stores without object.cache.size share this "
    "memory by use.",
)
GROUPER = Key(
    "job.systemstreampartition.grouper.factory",
    GROUPER_KIND,
    "partition",
    "How partitions become tasks: partition (one task per partition number), ssp (one per partition of each stream), "
    "single, or Samza's Java class name.",
)
LOGGED_STORE_BASE_DIR = Key(
    "job.logged.store.base.dir",
    FOLDER,
    None,
    "Folder of the stores with a changelog. The variable LOGGED_STORE_BASE_DIR overrides it.",
    "state",
)
NON_LOGGED_STORE_BASE_DIR = Key(
    "job.non-logged.store.base.dir", FOLDER, None, "Folder of the stores without a changelog.", "state"
)
STARTPOINTS = Key(
    "job.startpoint.enabled",
    BOOLEAN,
    True,
    "Whether a start follows the startpoints of `samzapy startpoint set`.",
)
HOST_AFFINITY = Key(
    "job.host-affinity.enabled",
    BOOLEAN,
    False,
    "Whether a container returns, if possible, to the host with the local state of its tasks.",
)
COPIES = Key(
    "job.standbytasks.replication.factor",
    integer(1, 10),
    1,
    "Copies of each task's state, including the active one. 2 and more keep standby containers in other executors.",
)
ORPHAN_TTL_MS = Key(
    "job.orphaned.stores.ttl.ms",
    integer(-1),
    604_800_000,
    "Milliseconds without use after which a start sets aside a local store of this job. The next start deletes "
    "it. Its changelog has all entries. -1: never.",
)
PAGE_PORT = Key(
    "job.page.port",
    optional(integer(0, 65_535)),
    None,
    "The port of the status page, `/metrics` and the probes on this machine's loopback address (0: any free "
    "port). With Spark the coordinator's port serves them as well.",
    "no page with `--runner local`",
)
PAGE_HOSTS = Key(
    "job.page.hosts",
    HOSTS,
    (),
    "Names by which requests reach the status page and the coordinator, beside their own address: those of a Kubernetes Service, of a "
    "proxy. A request by any other name is refused, since a foreign page could have pointed it here.",
)
HANDOVER_MS = Key(
    "job.handover.ms",
    integer(0, 3_600_000),
    10_000,
    "Milliseconds that a new run of the job waits for the previous run to commit and stop, once everything else "
    "is ready. After that the new run fences the previous one. 0: at once.",
)
KEYS = collect(globals())
BASE_DIR_VARIABLE = "LOGGED_STORE_BASE_DIR"


def parse_identity(reader: Reader) -> tuple[str, str]:
    """The job's name and id."""
    return reader.require(NAME, "page-views"), reader.get(ID) or "1"


def parse_base_dirs(reader: Reader, environ: Mapping[str, str]) -> tuple[Path, Path]:
    """The folders of logged and of other stores; relative paths start at the working directory."""
    logged, by_variable = reader.get(LOGGED_STORE_BASE_DIR), environ.get(BASE_DIR_VARIABLE)
    if by_variable:
        try:
            logged = FOLDER.parse(by_variable)
        except ValueError as cause:
            reader.problem(BASE_DIR_VARIABLE, f"expected {cause}", by_variable)
    return Path(logged or "state"), Path(reader.get(NON_LOGGED_STORE_BASE_DIR) or "state")


def parse_placement(reader: Reader) -> PlacementConfig:
    """Read host affinity, standby copies and the age of orphaned stores."""
    return PlacementConfig(reader.get(HOST_AFFINITY), reader.get(COPIES), reader.get(ORPHAN_TTL_MS))
