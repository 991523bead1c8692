"""What of a job goes into the functions that Spark gets."""

import pickle
import stat
from pathlib import Path
from zipfile import ZipFile

import pytest
from job_files import JobFolder

from samzapy.config.loader import load_job
from samzapy.dataframe.reading import TravellingJob
from samzapy.errors import ConfigError
from samzapy.runner.spark.master import check_secrets

SECRETS = {
    "systems.other.samza.factory": "kafka",
    "systems.other.consumer.bootstrap.servers": "b:9092",
    "systems.other.consumer.sasl.password": "${sensitive.mine}",
    "sensitive.mine": "hunter2",
    "job.spark.conf.spark.ssl.keyPassword": "hunter3",
}


@pytest.fixture
def job(tmp_path):
    made = JobFolder(tmp_path, **SECRETS)
    yield made
    made.admin.close()


def test_no_secret_that_is_written_into_the_job_file_is_in_the_function(job):
    travelling = TravellingJob.without_secrets(job.config, on_this_machine=True)
    assert b"hunter" not in pickle.dumps(travelling)
    assert "hunter" not in repr(travelling)


def test_executors_on_this_machine_read_the_secrets_from_a_file_of_this_user(job):
    travelling = pickle.loads(pickle.dumps(TravellingJob.without_secrets(job.config, on_this_machine=True)))
    file = Path(travelling.secrets)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "hunter3" not in file.read_text(), "Spark's own secrets stay with Spark"
    with travelling.arrived() as config:
        assert config.resolved["systems.other.consumer.sasl.password"] == "hunter2"
        assert config.name == job.config.name


def test_executors_on_other_machines_get_no_such_secrets(job):
    with pytest.raises(ConfigError, match=r"sensitive\.mine: expected \$\{env:NAME\}"):
        check_secrets(job.config, "spark://far:7077")
    assert TravellingJob.without_secrets(job.config, on_this_machine=False).secrets is None


MONEY = """
from samzapy.api.serde import SerdeFactory
from samzapy.serializers import LongSerde


class Money(SerdeFactory):
    def serde(self, name, settings):
        return LongSerde()
"""


@pytest.fixture
def beside(job):
    """The job, in a folder with a module of its own."""
    folder = job.folder / "configs"
    folder.mkdir()
    (folder / "money.py").write_text(MONEY)
    keys = {key: value for key, value in job.keys.items() if key not in SECRETS} | {
        "serializers.registry.money.class": "money:Money",
        "stores.counts.msg.serde": "money",
    }
    (folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    return load_job(folder / "job.properties")


@pytest.mark.parametrize("master", ["local[2]", "spark://far:7077"])
def test_executors_get_the_modules_next_to_the_job_file(beside, master):
    class Context:
        def __init__(self):
            self.master = master
            self.files = []

        def addPyFile(self, path):  # noqa: N802  # Spark's
            self.files.append(path)

    context = Context()
    TravellingJob.of(beside, context)
    (archive,) = context.files
    assert ZipFile(archive).namelist() == ["money.py"]


def test_programs_that_import_the_former_name_still_work():
    from samzapy import dataframe, spark

    assert (spark.read_store, spark.write_store) == (dataframe.read_store, dataframe.write_store)
