"""Messages with registered schemas in the workers of Spark, with a registry over TLS: a job with a stream of each
format."""

from pathlib import Path

import pytest
import trustme
from jobs import schema_job as jobs
from rigs.job_process import JobProcess
from rigs.numbered_stream import Streams, settings_of
from rigs.schema_registry import schema_registry, tls_of

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.serializers import serde_registry

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(240)]

#: The schema in the job file, and the class of the messages.
FORMATS = {
    "avro": (jobs.AVRO, jobs.Order),
    "json-schema": (jobs.JSON, jobs.Order),
    "protobuf": (None, jobs.OrderMessage),
}
TASK = """
from schema_job import Order, OrderMessage
from samzapy import StreamTask, SystemStream


class Next(StreamTask):
    def process(self, envelope, collector, coordinator):
        order = envelope.message
        assert type(order) in (Order, OrderMessage), type(order)
        out = SystemStream("local", envelope.ssp.stream.replace("-in", "-out"))
        collector.send_message(out, type(order)(user=order.user, amount=order.amount + 1), envelope.key)
"""


def job_of(url, ca):
    keys = {
        "job.name": "schemas",
        "job.default.system": "local",
        "task.class": "next_order:Next",
        "task.inputs": ",".join(f"local.{name}-in" for name in FORMATS),
        "systems.local.samza.factory": "local",
        "systems.local.path": "local.db",
        "systems.local.default.stream.samza.offset.default": "oldest",
        "systems.local.default.stream.samza.key.serde": "string",
    }
    for name, (schema, kind) in FORMATS.items():
        keys |= jobs.registry_keys(name, url, schema, auto_register="true", ssl_ca_location=ca)
        for stream in (f"{name}-in", f"{name}-out"):
            keys[f"streams.{stream}.samza.msg.serde"] = name
            keys[f"streams.{stream}.samza.msg.type"] = "schema_job:" + (
                "Order" if kind is jobs.Order else "OrderMessage"
            )
    return keys


@pytest.fixture(scope="module")
def read_back(tmp_path_factory):
    """The outputs of one run, by format."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "schema_job.py").write_text(Path(jobs.__file__).read_text())
    (folder / "next_order.py").write_text(TASK)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    with schema_registry(tls=tls_of(authority.issue_cert("127.0.0.1"))) as server:
        job = job_of(server.url, str(folder / "ca.pem"))
        (folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in job.items()))
        streams = Streams(settings_of({**job, "systems.local.path": f"{folder}/local.db"}, "local"))
        serdes = {name: serde_registry(job)[name].of_type(kind) for name, (_, kind) in FORMATS.items()}
        producer = streams.producer()
        for name, (_, kind) in FORMATS.items():
            for stream in (f"{name}-in", f"{name}-out"):
                streams.admin.create(StreamSpec(stream, 2))
            write = serdes[name].at(f"{name}-in", "value").to_bytes
            producer.send([OutgoingRecord(f"{name}-in", b"k%d" % n, write(kind(user="u", amount=n))) for n in range(5)])
        producer.flush()
        producer.close()
        run = JobProcess(folder, "job.properties", "--master", "local[1]", "--until-end")
        try:
            assert run.wait(170) == 0, run.errors
        finally:
            run.close()
        yield {
            name: [serdes[name].from_bytes(value) for batch in streams.read(f"{name}-out") for value in batch.values]
            for name in FORMATS
        }


@pytest.mark.parametrize("name", FORMATS)
def test_an_executor_reads_and_writes_with_a_registrys_schemas_over_tls(read_back, name):
    found = read_back[name]
    assert {type(order) for order in found} == {FORMATS[name][1]}
    assert sorted(order.amount for order in found) == [1, 2, 3, 4, 5]
