"""`job.spark.*`: the Spark application that runs the containers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from samzapy.config.reading.keys import LIST, TEXT, family, integer, key, labels
from samzapy.config.reading.reader import Reader

_MADE = "made for the run"


@dataclass(frozen=True)
class TlsConfig:
    """TLS of the coordinator. `enabled` None: if the master is on other machines. `certificate` and `private_key`:
    files, both or none."""

    enabled: bool | None = key(
        "job.spark.coordinator.tls.enabled", labels(auto=None, true=True, false=False), None, shown="auto"
    )
    """Whether the coordinator speaks TLS; auto: if the master is not on this machine."""
    certificate: str | None = key("job.spark.coordinator.tls.certificate.location", TEXT, None, shown=_MADE)
    """A PEM file on the driver's machine with the coordinator's certificate and its chain to an authority. Containers
    pin it by its fingerprint."""
    private_key: str | None = key("job.spark.coordinator.tls.key.location", TEXT, None, shown=_MADE)
    """A PEM file on the driver's machine with the key of that certificate, without a password."""


@dataclass(frozen=True, kw_only=True)
class SparkConfig:
    """The keys of the Spark application. `conf` has Spark's own keys. `master` None: `local[N]`, N containers."""

    master: str | None = key("job.spark.master", TEXT, None, shown="local[N], N containers")
    """Spark's master: local[N,F], local-cluster[...], spark://..."""
    conf: Mapping[str, str] = family("job.spark.conf.*")
    """Spark's own keys, e.g. `job.spark.conf.spark.executor.memory=2g`."""
    py_files: tuple[str, ...] = key("job.spark.py.files", LIST, (), shown="the modules beside the job file")
    """Python files and archives to ship to the executors."""
    archives: tuple[str, ...] = key("job.spark.archives", LIST, ())
    """Archives to ship to the executors. Spark unpacks `env.tar.gz#env` there into the folder env. `samzapy pack`
    writes such an archive."""
    start_timeout_ms: int = key("job.spark.start.timeout.ms", integer(0, 86_400_000), 600_000)
    """Milliseconds that Spark may take to start. After that the run ends. 0: no limit."""
    max_resubmits: int = key("job.spark.max.resubmits", integer(0, 1_000_000), 8)
    """How often in a row the driver resubmits a container that has failed, or `--runner local` restarts a container
    after a temporary error."""
    resubmit_backoff_max_ms: int = key("job.spark.resubmit.backoff.max.ms", integer(0, 86_400_000), 30_000)
    """Milliseconds of the longest pause before a resubmission. The first one in a row has none, the second one waits
    for 1 s, and each further pause doubles. A run of ten times the longest pause begins the count again."""
    lease_ms: int = key("job.spark.lease.ms", integer(1_000, 3_600_000), 15_000)
    """A container stops itself after so many milliseconds without an answer from the driver."""
    coordinator_host: str | None = key(
        "job.spark.coordinator.host", TEXT, None, shown="spark.driver.host, else this machine's own address"
    )
    """The address at which executors reach the driver."""
    coordinator_port: int = key("job.spark.coordinator.port", integer(0, 65_535), 0)
    """The coordinator's port. 0: any free port."""
    coordinator_tls: TlsConfig = field(default_factory=TlsConfig)


def parse_spark(reader: Reader) -> SparkConfig:
    """Read `job.spark.*`; note keys in `conf` that are not Spark's, and speculation."""
    tls = reader.read(TlsConfig)
    files = {f"job.spark.coordinator.tls.{part}.location" for part in ("certificate", "key")}
    for missing in files:
        (other,) = files - {missing}
        if reader.values.get(other) and not reader.is_set(missing):
            reader.problem(missing, f"required with {other}")
    config = reader.read(SparkConfig, coordinator_tls=tls)
    for name, value in config.conf.items():
        if not name.startswith("spark."):
            reader.problem(f"job.spark.conf.{name}", "expected a key of Spark, which starts with spark.")
        if name == "spark.speculation" and value.lower() == "true":
            message = "must be false: with speculation two attempts of one task write at a time"
            reader.problem(f"job.spark.conf.{name}", message, value)
    return config
