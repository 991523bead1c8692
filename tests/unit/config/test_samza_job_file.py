"""A job file written for Samza, with nothing changed but its task class."""

from samzapy.api.stream import SystemStream
from samzapy.config.checkpoint import CheckpointConfig
from samzapy.config.loader import load_job

FILE = """\
# Job
job.factory.class=org.apache.samza.job.yarn.YarnJobFactory
job.name=wikipedia-stats
job.default.system=kafka
job.coordinator.system=kafka
job.coordinator.replication.factor=1
job.container.count=2

# YARN
yarn.package.path=file:///srv/jobs/wikipedia-1.0-dist.tar.gz

# Task
task.class=wikipedia.stats:WikipediaStatsTask
task.inputs=kafka.wikipedia-edits
task.window.ms=10000
task.checkpoint.factory=org.apache.samza.checkpoint.kafka.KafkaCheckpointManagerFactory
task.checkpoint.system=kafka
task.checkpoint.replication.factor=1

# Serializers
serializers.registry.json.class=org.apache.samza.serializers.JsonSerdeFactory
serializers.registry.string.class=org.apache.samza.serializers.StringSerdeFactory
serializers.registry.integer.class=org.apache.samza.serializers.IntegerSerdeFactory

# Systems
systems.kafka.samza.factory=org.apache.samza.system.kafka.KafkaSystemFactory
systems.kafka.samza.msg.serde=json
systems.kafka.producer.bootstrap.servers=localhost:9092
systems.kafka.default.stream.replication.factor=1
systems.kafka.streams.wikipedia-edits.samza.offset.default=oldest

# Key-value storage
stores.wikipedia-stats.factory=org.apache.samza.storage.kv.RocksDbKeyValueStorageEngineFactory
stores.wikipedia-stats.changelog=kafka.wikipedia-stats-changelog
stores.wikipedia-stats.key.serde=string
stores.wikipedia-stats.msg.serde=integer

# Metrics
metrics.reporters=snapshot,jmx
metrics.reporter.snapshot.class=org.apache.samza.metrics.reporter.MetricsSnapshotReporterFactory
metrics.reporter.snapshot.stream=kafka.metrics
metrics.reporter.jmx.class=org.apache.samza.metrics.reporter.JmxReporterFactory
"""


def test_a_samza_job_file_is_read_as_it_is(tmp_path):
    path = tmp_path / "wikipedia-stats.properties"
    path.write_text(FILE)
    job = load_job(path, environ={}, strict=True)
    edits = SystemStream("kafka", "wikipedia-edits")
    assert job.task.inputs == (edits,)
    assert job.task.window_ms == 10_000
    assert job.task.checkpoint == CheckpointConfig(
        "samzapy.checkpoint:TopicCheckpointManagerFactory", "kafka", replication_factor=1
    )
    assert (job.stream(edits).msg_serde, job.stream(edits).offset_default) == ("json", "oldest")
    assert job.stores["wikipedia-stats"].changelog == SystemStream("kafka", "wikipedia-stats-changelog")
    assert [reporter.name for reporter in job.metrics_reporters] == ["snapshot"]
    assert [warning.split(":")[0] for warning in job.warnings] == [
        "metrics.reporter.jmx.class",
        "job.factory.class",
        "job.coordinator.system",
        "job.coordinator.replication.factor",
        "yarn.package.path",
    ]
