"""`job.spark.*`: the Spark application that runs the containers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from samzapy.config.reading.keys import LIST, TEXT, Key, choice, collect, integer
from samzapy.config.reading.reader import Reader


@dataclass(frozen=True)
class TlsConfig:
    """TLS of the coordinator. `enabled`: None where the master is on other machines. `certificate` and `key`: files in
    PEM, both or none; without them a run makes its own."""

    enabled: bool | None = None
    certificate: str | None = None
    key: str | None = None


@dataclass(frozen=True)
class SparkConfig:
    """`master`: None for `local[N,4]` with N containers. `conf`: Spark's own keys, from `job.spark.conf.spark.*`.
    `py_files`: files to ship to the executors; `archives`: archives to ship and unpack there. `max_resubmits`: the
    number of times that the driver resubmits a container that Spark has given up, after `resubmit_backoff_ms`, which
    doubles up to `resubmit_backoff_max_ms`. `start_timeout_ms`: the time that Spark may take to start; 0: any."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    max_resubmits: int = 8
    resubmit_backoff_ms: int = 1_000
    resubmit_backoff_max_ms: int = 30_000
    lease_ms: int = 15_000
    start_timeout_ms: int = 600_000
    coordinator_host: str | None = None
    coordinator_port: int = 0
    coordinator_tls: TlsConfig = field(default_factory=TlsConfig)


MASTER = Key(
    "job.spark.master",
    TEXT,
    None,
    "Spark's master: local[N,F], local-cluster[...], spark://...",
    "local[N,4], N containers",
)
CONF = Key("job.spark.conf.*", TEXT, None, "Spark's own keys, e.g. `job.spark.conf.spark.executor.memory=2g`.")
PY_FILES = Key(
    "job.spark.py.files",
    LIST,
    (),
    "Python files and archives to ship to the executors.",
    "the modules beside the job file",
)
ARCHIVES = Key(
    "job.spark.archives",
    LIST,
    (),
    "Archives to ship to the executors. Spark unpacks `env.tar.gz#env` there into the folder env. `samzapy pack` "
    "writes such an archive.",
)
START_TIMEOUT_MS = Key(
    "job.spark.start.timeout.ms",
    integer(0, 86_400_000),
    600_000,
    "Milliseconds that Spark may take to start. After that the run ends. 0: no limit.",
)
MAX_RESUBMITS = Key(
    "job.spark.max.resubmits",
    integer(0, 1_000_000),
    8,
    "How often the driver resubmits a container that Spark has given up, or `--runner local` restarts a container "
    "after a temporary error.",
)
RESUBMIT_BACKOFF_MS = Key(
    "job.spark.resubmit.backoff.ms",
    integer(0, 86_400_000),
    1_000,
    "Milliseconds before the first resubmission. Each further pause doubles. After a run of ten times the longest "
    "back-off there is no pause.",
)
RESUBMIT_BACKOFF_MAX_MS = Key(
    "job.spark.resubmit.backoff.max.ms", integer(0, 86_400_000), 30_000, "Maximum back-off in milliseconds."
)
LEASE_MS = Key(
    "job.spark.lease.ms",
    integer(1_000, 3_600_000),
    15_000,
    "A container stops itself after so many milliseconds without an answer from the driver.",
)
COORDINATOR_HOST = Key(
    "job.spark.coordinator.host",
    TEXT,
    None,
    "The address at which executors reach the driver.",
    "spark.driver.host, else this machine's own address",
)
COORDINATOR_PORT = Key("job.spark.coordinator.port", integer(0, 65_535), 0, "The coordinator's port. 0: any free port.")
TLS_ENABLED = Key(
    "job.spark.coordinator.tls.enabled",
    choice("auto", "true", "false"),
    "auto",
    "Whether the coordinator speaks TLS; auto: if the master is not on this machine.",
)
TLS_CERTIFICATE = Key(
    "job.spark.coordinator.tls.certificate.location",
    TEXT,
    None,
    "A PEM file on the driver's machine with the coordinator's certificate and its chain to an authority. "
    "Containers pin it by its fingerprint.",
    "made for the run",
)
TLS_KEY = Key(
    "job.spark.coordinator.tls.key.location",
    TEXT,
    None,
    "A PEM file on the driver's machine with the key of that certificate, without a password.",
    "made for the run",
)
KEYS = collect(globals())

_SPECULATION = "spark.speculation"


def _tls(reader: Reader) -> TlsConfig:
    certificate, key = reader.get(TLS_CERTIFICATE), reader.get(TLS_KEY)
    for missing, given, value in ((TLS_KEY, TLS_CERTIFICATE, certificate), (TLS_CERTIFICATE, TLS_KEY, key)):
        if value is not None and not reader.has(missing):
            reader.problem(missing.name, f"required with {given.name}")
    enabled = {"auto": None, "true": True, "false": False}[reader.get(TLS_ENABLED)]
    return TlsConfig(enabled, certificate, key)


def parse_spark(reader: Reader) -> SparkConfig:
    """Read `job.spark.*`; note keys in `conf` that are not Spark's, and speculation."""
    conf = reader.below("job.spark.conf.")
    for key, value in conf.items():
        if not key.startswith("spark."):
            reader.problem(f"job.spark.conf.{key}", "expected a key of Spark, which starts with spark.")
        if key == _SPECULATION and value.lower() == "true":
            reader.problem(
                f"job.spark.conf.{key}",
                "must be false: with speculation two attempts of one task write at a time",
                value,
            )
    return SparkConfig(
        master=reader.get(MASTER),
        conf=conf,
        py_files=reader.get(PY_FILES),
        archives=reader.get(ARCHIVES),
        max_resubmits=reader.get(MAX_RESUBMITS),
        resubmit_backoff_ms=reader.get(RESUBMIT_BACKOFF_MS),
        resubmit_backoff_max_ms=reader.get(RESUBMIT_BACKOFF_MAX_MS),
        start_timeout_ms=reader.get(START_TIMEOUT_MS),
        lease_ms=reader.get(LEASE_MS),
        coordinator_host=reader.get(COORDINATOR_HOST),
        coordinator_port=reader.get(COORDINATOR_PORT),
        coordinator_tls=_tls(reader),
    )
