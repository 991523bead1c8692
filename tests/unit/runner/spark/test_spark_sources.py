"""The Spark of a run, where there is one already; without a JVM."""

import re
import socket
import sys
import zipfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from rigs.store_rig import SMALLEST

from samzapy.config.loader import load_job
from samzapy.errors import ConfigError, EnvironmentFailure
from samzapy.runner.base import TOKEN
from samzapy.runner.spark import sources
from samzapy.runner.spark.master import Master, coordinator_host
from samzapy.runner.spark.sources import GivenJvm, OwnSpark, SessionSpark, SubmittedSpark, spark_context, spark_source
from samzapy.runner.stopping import StopSwitch


def context(master="local[2]", **settings):
    """A context of pyspark, as far as its settings go."""
    found = {key.replace("_", "."): value for key, value in settings.items()}
    return SimpleNamespace(master=master, environment={}, getConf=lambda: SimpleNamespace(getAll=found.items))


def fitted(session, **keys):
    return SessionSpark(session).fit(
        load_job({**SMALLEST, **{key.replace("_", "."): value for key, value in keys.items()}})
    )


def test_the_master_of_a_session_counts_and_the_driver_is_where_the_session_says():
    job = fitted(context("spark://host:7077", spark_driver_host="10.0.0.7", spark_secret="x"))
    assert job.spark.master == "spark://host:7077"
    assert job.spark.conf == {"spark.driver.host": "10.0.0.7"}
    assert job.warnings == ()


def test_keys_that_a_session_overrules_are_warnings():
    job = fitted(context(), job_spark_master="local[4]", job_spark_conf_spark_executor_memory="2g")
    assert job.warnings == (
        "job.spark.master=local[4]: without effect, this Spark runs on local[2]",
        "job.spark.conf.spark.executor.memory: without effect, the session has its settings already",
    )


def test_a_session_on_yarn_has_the_executors_that_it_asked_for_whatever_the_job_file_says():
    asked = {"job_spark_conf_spark_executor_instances": "9"}
    two = fitted(context("yarn"), **asked).spark.conf
    assert two == {"spark.executor.instances": "2", "spark.executor.cores": "1"}
    five = fitted(context("yarn", spark_executor_instances="5", spark_executor_cores="4"), **asked).spark.conf
    assert five == {"spark.executor.instances": "5", "spark.executor.cores": "4"}


@pytest.fixture
def defaults(tmp_path, monkeypatch):
    """Writes the defaults of Spark's own folder."""

    def write(**settings):
        lines = [f"{key.replace('_', '.')} {value}\n" for key, value in settings.items()]
        (tmp_path / "spark-defaults.conf").write_text("".join(lines))
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))

    return write


def own(**keys):
    return OwnSpark().fit(load_job({**SMALLEST, **{key.replace("_", "."): value for key, value in keys.items()}})).spark


def test_executors_find_the_driver_where_sparks_own_defaults_say(defaults):
    defaults(spark_driver_host="10.1.0.5", spark_eventLog_dir="/log")
    spark = own(job_spark_master="spark://host:7077")
    assert coordinator_host(spark, Master.parse(spark.master)) == "10.1.0.5"
    assert spark.conf == {"spark.driver.host": "10.1.0.5"}
    asked = own(job_spark_master="spark://host:7077", job_spark_conf_spark_driver_host="10.2.0.5")
    assert asked.conf == {"spark.driver.host": "10.2.0.5"}


@pytest.mark.parametrize("keys", [{}, {"job_spark_master": "local[2,4]"}])
def test_sparks_own_defaults_do_not_lead_a_driver_on_this_machine_away_from_loopback(defaults, keys):
    defaults(spark_driver_host="10.1.0.5", spark_task_cpus="2")
    assert own(**keys).conf == {"spark.task.cpus": "2"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"spark_speculation": "true"}, "spark: spark.speculation: must be false: a second copy"),
        ({"spark_python_use_daemon": "false"}, "spark: spark.python.use.daemon: must be true: a worker"),
    ],
)
def test_a_session_that_would_break_a_guarantee_is_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        fitted(context(**settings))
    assert str(caught.value).startswith(message)


def test_a_session_whose_jobs_may_get_the_group_of_a_container_is_refused(monkeypatch):
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "False")
    with pytest.raises(ConfigError) as caught:
        fitted(context())
    assert str(caught.value).startswith("spark: PYSPARK_PIN_THREAD: must be true: a container's job group and tag")
    assert str(caught.value).endswith("got 'False'")
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "true")
    assert fitted(context()).warnings == ()


def test_what_is_no_session_is_refused():
    with pytest.raises(ConfigError, match="spark: must be a classic SparkSession, got 'str'"):
        spark_context("local[2]")
    with pytest.raises(ConfigError, match="spark: the session is stopped"):
        spark_context(SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None)))
    ended = SimpleNamespace(master="local", getConf=lambda: socket.create_connection(("127.0.0.1", 1)))
    with pytest.raises(EnvironmentFailure, match="the JVM of this process's Spark has ended"):
        fitted(ended)


def test_the_spark_of_the_process_is_used_and_else_a_new_one(monkeypatch):
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert isinstance(spark_source(), OwnSpark)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert isinstance(spark_source(), SubmittedSpark)
    active = context()
    monkeypatch.setattr(SparkContext, "_active_spark_context", active)
    assert isinstance(spark_source(), SessionSpark)
    # For a moment, while another run submits its containers on that session.
    active.environment[TOKEN] = "of another run"
    assert isinstance(spark_source(), SessionSpark)


class Session:
    """A context of pyspark: the files that it ships, and what it tells the workers of a function."""

    _jsc = None
    _gateway = SimpleNamespace(_gateway_client=SimpleNamespace(get_thread_connection=lambda: None))

    def __init__(self, master):
        self.master, self.environment, self._python_includes = master, {"PYTHONHASHSEED": "0"}, ["own.zip"]

    def addFile(self, path):  # noqa: N802  # pyspark's
        assert zipfile.is_zipfile(path)

    def addPyFile(self, path):  # noqa: N802  # pyspark's
        self.addFile(path)
        self._python_includes.append(Path(path).name)

    def addJobTag(self, tag):  # noqa: N802  # pyspark's
        pass


class Tasks:
    """An RDD whose function Spark wraps once, as its context is then."""

    def __init__(self, session):
        self.ctx, self.workers = session, []

    @property
    def _jrdd(self):
        self.workers.append((dict(self.ctx.environment), list(self.ctx._python_includes)))

    def collect(self):
        _ = self._jrdd
        return self.workers[0]


def job_in(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "tasks.py").write_text(text)
    (folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in SMALLEST.items()))
    return load_job(folder / "job.properties")


@contextmanager
def run_of(session, job=None, token="t"):
    """A run on the session; gives the environment of its workers, and the text of the first `tasks` on their import
    path."""
    master = Master.parse(session.master)
    config = load_job(SMALLEST) if job is None else job
    with SessionSpark(session).application(config, master, token, verbose=False, began=print) as application:

        def started():
            environment, includes = application.collect(Tasks(session))
            path = []
            for name in includes:
                # As a worker does.
                if name not in path:
                    path.insert(0, name)
            archive = sources.private_folder() / path[0]
            return environment, zipfile.ZipFile(archive).read("tasks.py").decode() if archive.exists() else None

        yield started


@pytest.fixture
def remote(tmp_path, monkeypatch):
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    monkeypatch.setattr(sources, "private_folder", lambda: shipped)
    return Session("spark://host:7077")


def test_runs_on_one_session_import_their_own_version_of_the_code_also_one_that_was_there_before(remote, tmp_path):
    for text in ("first = 1\n", "second = 2\n", "first = 1\n"):
        with run_of(remote, job_in(tmp_path / "job", text)) as started:
            assert started()[1] == text


def test_a_container_that_starts_again_beside_another_job_of_the_session_imports_the_code_of_its_own(remote, tmp_path):
    with (
        run_of(remote, job_in(tmp_path / "a", "a = 1\n")) as first,
        run_of(remote, job_in(tmp_path / "b", "b = 2\n")) as second,
    ):
        assert [started()[1] for started in (first, second, first)] == ["a = 1\n", "b = 2\n", "a = 1\n"]


def test_a_session_is_given_back_with_its_environment_and_its_archives(remote, tmp_path):
    path = list(sys.path)
    with run_of(remote, job_in(tmp_path / "a", "a = 1\n")) as started:
        assert started()[0][TOKEN] == "t"
        assert remote.environment == {"PYTHONHASHSEED": "0"}
    assert (remote._python_includes, sys.path) == (["own.zip"], path)


def test_runs_with_one_token_have_no_workers_in_common():
    """Spark gives an idle worker to the next function with the same environment."""
    session = Session("local[2]")
    with run_of(session) as first, run_of(session) as second:
        environments = [started()[0] for started in (first, first, second)]
    assert environments[0] == environments[1] != environments[2]


def test_a_switch_stops_a_run_once_also_if_it_was_asked_before():
    stops, switch = [], StopSwitch()
    with switch.stops(lambda: stops.append(1)):
        assert not switch.asked
        switch.ask()
        switch.ask()
    assert (stops, switch.asked) == ([1], True)
    with switch.stops(lambda: stops.append(2)):
        assert stops == [1, 2]


def test_a_program_notices_the_end_of_the_jvm_that_has_started_it_and_not_that_of_a_shell_between():
    answers = []

    def stopped():
        if not answers:
            raise Py4JNetworkError("no answer")
        return answers.pop()

    scala = SimpleNamespace(isStopped=stopped)
    parents = [7]
    jvm = GivenJvm(SimpleNamespace(_gateway=None, _jsc=SimpleNamespace(sc=lambda: scala)), lambda: parents[-1])
    assert jvm.alive, "it is not even asked"
    parents.append(1)
    answers.append(False)
    assert jvm.alive
    assert not jvm.alive


def test_a_standalone_master_that_does_not_answer_is_named_with_its_reason():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        there = f"127.0.0.1:{listening.getsockname()[1]}"
        OwnSpark().check(load_job({**SMALLEST, "job.spark.master": f"spark://127.0.0.1:1,{there}"}))
    nobody = r"job.spark.master: no Spark master answers \(127.0.0.1:1: Connection refused, " + re.escape(there)
    with pytest.raises(EnvironmentFailure, match=nobody):
        OwnSpark().check(load_job({**SMALLEST, "job.spark.master": f"spark://127.0.0.1:1,{there}"}))
