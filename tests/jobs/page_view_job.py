"""The page-view count as a job file, on streams named by the test: on the local system in the current folder, and on
Kafka."""


def page_view_job(name, *, output="local.out", changelog="local.log", **keys):
    """The text of a job file; `keys` are added, `__` standing for a dot."""
    added = "".join(f"{key.replace('__', '.')}={value}\n" for key, value in keys.items())
    return f"""
job.name={name}
job.default.system=local
job.logged.store.base.dir=state
systems.local.samza.factory=local
systems.local.default.stream.samza.key.serde=string
systems.local.default.stream.samza.msg.serde=json
systems.local.default.stream.samza.offset.default=oldest
task.class=samzapy.examples.page_views:PageViewCountTask
task.inputs=local.views
page.views.output={output}
stores.counts.factory=rocksdb
stores.counts.key.serde=string
stores.counts.msg.serde=long
stores.counts.changelog={changelog}
{added}"""


def page_view_job_on_kafka(name, folder, broker, *, views, out, log, **keys):
    """The text of a job file, in transactions and with topics of one copy; `keys` as above."""
    added = "".join(f"{key.replace('__', '.')}={value}\n" for key, value in keys.items())
    return f"""
job.name={name}
job.default.system=kafka
job.logged.store.base.dir={folder}/state
systems.kafka.samza.factory=kafka
systems.kafka.consumer.bootstrap.servers={broker}
systems.kafka.producer.bootstrap.servers={broker}
systems.kafka.default.stream.samza.key.serde=string
systems.kafka.default.stream.samza.msg.serde=json
systems.kafka.default.stream.samza.offset.default=oldest
task.class=samzapy.examples.page_views:PageViewCountTask
task.inputs=kafka.{views}
task.guarantee=exactly-once
task.checkpoint.replication.factor=1
page.views.output=kafka.{out}
stores.counts.factory=rocksdb
stores.counts.key.serde=string
stores.counts.msg.serde=long
stores.counts.changelog=kafka.{log}
stores.counts.changelog.replication.factor=1
{added}"""
