"""The whole job as frozen values, and the keys `job.*`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from samzapy.api.context import JobContext
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import SystemSettings
from samzapy.config.checkpoint import StateCheckpointConfig
from samzapy.config.reading.classes import ENGINES, GROUPER
from samzapy.config.reading.keys import (
    BOOLEAN,
    FOLDER,
    HOSTS,
    LIST,
    NAME,
    NAMED_LIST,
    TEXT,
    Reader,
    family,
    integer,
    key,
    labels,
    required,
    split_list,
)
from samzapy.config.stores import StoreConfig
from samzapy.config.streams import StreamConfig
from samzapy.config.supervision import ReporterConfig, SupervisionConfig
from samzapy.config.task import TaskConfig

_STATE = Path("state")
#: Overrides `job.logged.store.base.dir`.
BASE_DIR_VARIABLE = "LOGGED_STORE_BASE_DIR"


@dataclass(frozen=True, kw_only=True)
class SparkConfig:
    """The keys of the Spark application. `conf` has Spark's own keys. `master` None: `local[N]`, N containers."""

    master: str | None = key("job.spark.master", TEXT, None, shown="local[N], N containers")
    """Spark's master: local[N,F], local-cluster[...], spark://..."""
    conf: Mapping[str, str] = family("job.spark.conf.*")
    """Spark's own keys, e.g. `job.spark.conf.spark.executor.memory=2g`."""
    py_files: tuple[str, ...] = key("job.spark.py.files", LIST, (), shown="the modules beside the job file")
    """Python files and archives to ship to the executors."""
    max_resubmits: int = key("job.spark.max.resubmits", integer(0, 1_000_000), 8)
    """How often in a row the driver resubmits a container that has failed, or `--runner local` restarts a container
    after a temporary error. The first time in a row has no pause, the second one waits for 1 s, and each further pause
    doubles, up to 30 s. A run of five minutes begins the count again."""
    lease_ms: int = key("job.spark.lease.ms", integer(1_000, 3_600_000), 15_000)
    """A container stops itself after so many milliseconds without an answer from the driver."""
    coordinator_host: str | None = key(
        "job.spark.coordinator.host", TEXT, None, shown="spark.driver.host, else this machine's own address"
    )
    """The address at which executors reach the driver."""
    coordinator_port: int = key("job.spark.coordinator.port", integer(0, 65_535), 0)
    """The coordinator's port. 0: any free port."""
    coordinator_tls: bool | None = key(
        "job.spark.coordinator.tls.enabled", labels(auto=None, true=True, false=False), None, shown="auto"
    )
    """Whether the coordinator speaks TLS; auto: if the master is not on this machine. Each run makes its own
    certificate."""

    @property
    def archives(self) -> tuple[str, ...]:
        """The archives that Spark ships to the executors: it unpacks `env.tar.gz#env` there into the folder env."""
        return split_list(self.conf.get("spark.archives", ""))


@dataclass(frozen=True)
class PlacementConfig:
    """Where containers run. `copies` of each task's logged stores, including the active one."""

    host_affinity: bool = key("job.host-affinity.enabled", BOOLEAN, False)
    """Whether a container returns, if possible, to the host with the local state of its tasks."""
    copies: int = key("job.standbytasks.replication.factor", integer(1, 10), 1)
    """Copies of each task's state, including the active one. 2 and more keep standby containers in other executors."""

    @property
    def standbys(self) -> int:
        return self.copies - 1


@dataclass(frozen=True)
class JobClockConfig:
    """Event time. Durations in milliseconds of processing time; <= 0: no limit."""

    idle_ms: int = key(
        "task.watermark.idle.timeout.ms",
        integer(),
        60_000,
        shown="60000; -1 for a job with timers or an intermediate input",
    )
    """Milliseconds after which a silent input partition, or a silent sender of an intermediate stream, no longer holds
    back the task's event time. A task with only such partitions no longer holds back the job's clock. <= 0: never."""
    max_ahead_ms: int = key("task.event.time.max.ahead.ms", integer(), 86_400_000)
    """Milliseconds by which a message may be ahead of the wall clock and still advance event time. One that is further
    ahead is counted and advances nothing: a task processes it as usual, windows send it to their late stream, joins
    leave it out. <= 0: no limit."""


@dataclass(frozen=True, kw_only=True)
class JobConfig:
    """A checked job file: builders take the arguments of constructors from it.

    `streams` has an entry for every stream that the file mentions; `stream(...)` falls back to the system's defaults.
    `stream_ids` are the streams with keys `streams.ID.*`. `serdes` maps names to class paths, including built-in ones.
    `timers_store` names the store of the tasks' timers. `raw` is the flat file with its overrides and unresolved values
    (`${env:X}` as written), to carry the job elsewhere. `resolved` has the values in clear; its `repr` hides secrets.
    `warnings` are sentences about oddities that do not stop the job. `folder` is that of the job file, from which the
    job imports modules; None for a job of pairs.
    """

    name: str = required("job.name", NAME, "page-views", otherwise=("app.name",))
    """The job's name: part of the checkpoint topic, the transactional ids and the folders of its stores."""
    id: str = key("job.id", NAME, "1", otherwise=("app.id",))
    """Distinguishes jobs of one name."""
    default_system: str | None = key("job.default.system", TEXT, None)
    """The system of streams without a system in their name."""
    changelog_system: str | None = key("job.changelog.system", TEXT, None, shown="job.default.system")
    """The system of changelogs without a system in their name."""
    container_count: int = key("job.container.count", integer(1, 100_000), 1, otherwise=("yarn.container.count",))
    """Number of containers for the tasks."""
    cache_max_bytes: int = key("container.cache.max.bytes", integer(1, 2**53), 268_435_456)
    """Bytes of memory for the object caches of one container. Its stores without object.cache.size share this memory by
    use."""
    grouper: str = key("job.systemstreampartition.grouper.factory", GROUPER, "partition")
    """How partitions become tasks: partition (one task per partition number), ssp (one per partition of each stream),
    single, or Samza's Java class name."""
    logged_store_base_dir: Path = key("job.logged.store.base.dir", FOLDER, _STATE)
    """Folder of the stores with a changelog. The variable LOGGED_STORE_BASE_DIR overrides it."""
    non_logged_store_base_dir: Path = key("job.non-logged.store.base.dir", FOLDER, _STATE)
    """Folder of the stores without a changelog."""
    startpoints: bool = key("job.startpoint.enabled", BOOLEAN, True)
    """Whether a start follows the startpoints of `samzapy startpoint set`."""
    page_port: int | None = key("job.page.port", integer(0, 65_535), None, shown="no page with `--runner local`")
    """The port of the status page, `/metrics` and the probes on this machine's loopback address (0: any free port).
    With Spark the coordinator's port serves them as well."""
    page_hosts: tuple[str, ...] = key("job.page.hosts", HOSTS, ())
    """Names by which requests reach the status page and the coordinator, next to their own address: those of a
    Kubernetes Service, of a proxy. A request by any other name is refused, since a foreign page could have pointed it
    here."""
    page_links: Mapping[str, str] = family("job.page.links.*")
    """Pages elsewhere that the status page links to, by name: `job.page.links.Grafana=https://grafana/d/samzapy`."""
    prometheus_port: int = key("metrics.prometheus.port", integer(0, 65_535), 0)
    """Container N serves its metrics to Prometheus, and to the driver, on this port + N of the executor's address, or
    of loopback with a master on this machine. 0: on any free one. The driver passes scrapes on
    (`/containers/N/metrics`), and serves the metrics of the job, its containers and its lag. A scrape sends the token
    that reads (`Authorization: Bearer`)."""
    handover_ms: int = key("job.handover.ms", integer(0, 3_600_000), 10_000)
    """Milliseconds that a new run of the job waits for the previous run to commit and stop, once everything else is
    ready. After that the new run fences the previous one. 0: at once."""
    metrics_reporters: tuple[ReporterConfig, ...] = key("metrics.reporters", NAMED_LIST, ())
    """Names of the reporters."""
    task: TaskConfig
    systems: Mapping[str, SystemSettings]
    streams: Mapping[SystemStream, StreamConfig]
    stores: Mapping[str, StoreConfig]
    serdes: Mapping[str, str]
    timers_store: str | None = None
    placement: PlacementConfig = field(default_factory=PlacementConfig)
    spark: SparkConfig = field(default_factory=SparkConfig)
    clock: JobClockConfig = field(default_factory=JobClockConfig)
    state_checkpoint: StateCheckpointConfig = field(default_factory=StateCheckpointConfig)
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

    @property
    def changelogs(self) -> dict[SystemStream, StoreConfig]:
        """The stores with a changelog, by that stream."""
        return {store.changelog: store for store in self.stores.values() if store.changelog is not None}

    @property
    def sources(self) -> frozenset[SystemStream]:
        """The streams that fill stores without a changelog."""
        return frozenset().union(*(store.source.all_streams for store in self.stores.values() if store.source))

    @property
    def repartitions(self) -> frozenset[SystemStream]:
        """The streams that connect steps of this job."""
        return frozenset(stream for stream in self.task.inputs if self.stream(stream).repartition)

    def base_dir(self, store: StoreConfig) -> Path:
        return self.logged_store_base_dir if store.changelog is not None else self.non_logged_store_base_dir

    def stream(self, system_stream: SystemStream) -> StreamConfig:
        """The configuration of a stream: its own keys, else the defaults of its system."""
        known = self.streams.get(system_stream)
        if known is not None:
            return known
        settings = self.systems[system_stream.system]
        defaults = {**settings.properties, **settings.default_stream}
        return StreamConfig(
            system_stream,
            key_serde=defaults.get("samza.key.serde") or None,
            msg_serde=defaults.get("samza.msg.serde") or None,
            offset_default=defaults.get("samza.offset.default") or "upcoming",
        )


def logged_base_dir(reader: Reader, environ: Mapping[str, str]) -> Path:
    """The folder of logged stores; a relative path starts at the working directory."""
    variable = environ.get(BASE_DIR_VARIABLE)
    if variable:
        try:
            return FOLDER.parse(variable)
        except ValueError as cause:
            reader.problem(BASE_DIR_VARIABLE, f"expected {cause}", variable)
    folder: Path = reader.value(JobConfig, "logged_store_base_dir")
    return folder


def parse_job_clock(reader: Reader, *, fires: bool) -> JobClockConfig:
    """Read the durations. `fires`: the job has timers, or inputs with watermarks. Without an idle time, their events
    depend on the inputs only."""
    if fires and not reader.is_set("task.watermark.idle.timeout.ms"):
        return reader.read(JobClockConfig, idle_ms=-1)
    return reader.read(JobClockConfig)


def timers_store(reader: Reader, stores: Mapping[str, StoreConfig]) -> str | None:
    """The store of the timers, None for a job without. Notes a problem if there are several."""
    names = sorted(name for name, store in stores.items() if store.factory == ENGINES.short["timers"])
    if len(names) > 1:
        reader.problem(f"stores.{names[1]}.factory", f"a job has one store of timers, and {names[0]} is one")
    return names[0] if names else None


def parse_links(reader: Reader) -> Mapping[str, str]:
    """Read `job.page.links.*`; note what is no address."""
    links: Mapping[str, str] = reader.value(JobConfig, "page_links")
    for name, url in links.items():
        if not url.startswith(("http://", "https://")):
            reader.problem(f"job.page.links.{name}", "expected an address that starts with http:// or https://", url)
    return links


#: The settings of Spark that a job needs, with the reasons. Other values are refused.
FIXED = {
    "spark.speculation": ("false", "a second copy of a running task would write the same state"),
    "spark.dynamicAllocation.enabled": ("false", "containers never end, and a standby waits for an executor"),
    "spark.python.worker.reuse": ("false", "clients and stores must not outlive their task"),
    "spark.python.worker.killOnIdleTimeout": ("false", "a container sends Spark nothing, so it would be killed"),
    "spark.python.use.daemon": ("true", "a worker has to end with its executor"),
}


def parse_spark(reader: Reader) -> SparkConfig:
    """Read `job.spark.*`; note keys in `conf` that are not Spark's, and values that a job cannot run with."""
    config = reader.read(SparkConfig)
    for name, value in config.conf.items():
        if not name.startswith("spark."):
            reader.problem(f"job.spark.conf.{name}", "expected a key of Spark, which starts with spark.")
        if name in FIXED and value.lower() != FIXED[name][0]:
            reader.problem(f"job.spark.conf.{name}", "must be {}: {}".format(*FIXED[name]), value)
        if name == "spark.master" and value != config.master:
            reader.problem(f"job.spark.conf.{name}", "must be left out: job.spark.master names the master", value)
    return config


def checkpoint_topic(job_name: str, job_id: str) -> str:
    """The topic of a job's checkpoints, as Samza spells it."""
    return f"__samza_checkpoint_ver_1_for_{job_name.replace('_', '-')}_{job_id.replace('_', '-')}"


def state_checkpoint_topic(job_name: str, job_id: str) -> str:
    """The topic of the checkpoints of the tasks' own states."""
    return f"__samzapy_state_checkpoints_for_{job_name}_{job_id}"


def checkpoint_stream(config: JobConfig) -> SystemStream | None:
    """The stream of the job's checkpoints; None if they are not in a topic."""
    checkpoint = config.task.checkpoint
    if checkpoint is None or checkpoint.system is None:
        return None
    return SystemStream(checkpoint.system, checkpoint_topic(config.name, config.id))


def state_checkpoint_stream(config: JobConfig) -> SystemStream | None:
    """The stream of the job's state checkpoints; None if no system is configured for it."""
    if config.state_checkpoint.system is None:
        return None
    return SystemStream(config.state_checkpoint.system, state_checkpoint_topic(config.name, config.id))


def own_streams(config: JobConfig) -> Mapping[SystemStream, str]:
    """The streams that only the runtime may write to, each with its description, as `the changelog of store 's'`."""
    logged = {stream: f"the changelog of store '{store.name}'" for stream, store in config.changelogs.items()}
    return _checkpoints(config) | logged


def never_inputs(config: JobConfig) -> Mapping[SystemStream, str]:
    """The streams that no pattern makes an input, each with its use: streams of the runtime, outputs that the job file
    names, and streams that fill stores."""
    return {stream: f"{key} names it" for stream, key in _named(config)} | dict(own_streams(config))


def check_changelogs(reader: Reader, config: JobConfig) -> None:
    """Note a problem for every changelog with another use; `parse_stores` notes changelogs that two stores share.

    1. A changelog that is an input would feed itself without end.
    2. A changelog that is also an output would be restored into a store that never held those entries.
    """
    task = config.task
    named = [*((stream, "task.inputs") for stream in task.inputs)]
    named += ((ssp.system_stream, "task.broadcast.inputs") for ssp in task.broadcast_inputs)
    named += _sources(config, replayed=True)
    named += _named(config)
    named += ((stream, f"streams.{stream_id}") for stream_id, stream in config.stream_ids.items())
    uses = {stream: f"it is {what}" for stream, what in _checkpoints(config).items()}
    uses |= {stream: f"{key} names it too" for stream, key in reversed(named)}
    for stream, store in config.changelogs.items():
        if stream in uses:
            key = f"stores.{store.name}.changelog"
            reader.problem(key, f"expected a separate stream, but {uses[stream]}", str(stream))


def _checkpoints(config: JobConfig) -> dict[SystemStream, str]:
    streams = {
        checkpoint_stream(config): "the job's checkpoint topic",
        state_checkpoint_stream(config): "the topic of the job's state checkpoints",
    }
    return {stream: what for stream, what in streams.items() if stream is not None}


def _named(config: JobConfig) -> Iterator[tuple[SystemStream, str]]:
    """The streams that the file names otherwise than as inputs, each with its key: those that fill stores, those that
    the runtime writes, and those in the user's own keys that end in `.output` or `.outputs`."""
    yield from _sources(config, replayed=False)
    if config.task.errors.dead_letters is not None:
        yield config.task.errors.dead_letters, "task.dead.letter.stream"
    for reporter in config.metrics_reporters:
        if reporter.stream is not None:
            yield reporter.stream, f"metrics.reporter.{reporter.name}.stream"
    for place, value in config.resolved.items():
        for name in split_list(value) if place.endswith((".output", ".outputs")) else ():
            with suppress(ValueError):
                stream = config.stream_ids.get(name) or SystemStream.parse(name, config.default_system)
                if stream.system in config.systems:
                    yield stream, place


def _sources(config: JobConfig, *, replayed: bool) -> Iterator[tuple[SystemStream, str]]:
    for store in config.stores.values():
        if store.source is not None and store.source.replayed == replayed:
            key = f"stores.{store.name}.{'restore' if replayed else 'side'}.inputs"
            yield from ((stream, key) for stream in store.source.all_streams)
