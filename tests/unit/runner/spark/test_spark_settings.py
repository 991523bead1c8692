import sys
from pathlib import Path

import javaproperties
import pytest
from rigs.store_rig import SMALLEST

from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.job.files import TemporaryFolder
from samzapy.runner.spark.jvm import log_settings, spark_home, spark_properties
from samzapy.runner.spark.master import Master, added_settings, environment, spark_settings


def settings(master: str = "local[1,4]", **conf: str) -> dict[str, str]:
    given = {f"job.spark.conf.{key.replace('_', '.')}": value for key, value in conf.items()}
    return spark_settings(load_job({**SMALLEST, **given}, environ={}), Master.parse(master), Path("/log4j2.properties"))


def test_spark_is_quiet_local_and_without_a_page_of_its_own_by_default():
    made = settings()
    assert made["spark.ui.enabled"] == "false"
    assert made["spark.driver.host"] == made["spark.driver.bindAddress"] == "127.0.0.1"
    assert made["spark.driver.memory"] == "1g"
    assert made["spark.task.maxFailures"] == "1", "the driver chooses the next place"
    assert made["spark.driver.extraJavaOptions"].endswith(" -Dlog4j2.configurationFile=file:///log4j2.properties")
    assert made["spark.app.name"] == "job"


def test_the_job_files_own_spark_keys_win_over_the_defaults():
    made = settings(spark_ui_enabled="true", spark_driver_memory="2g", spark_driver_extraJavaOptions="-Xss4m")
    assert made["spark.ui.enabled"] == "true"
    assert made["spark.driver.memory"] == "2g"
    assert made["spark.driver.extraJavaOptions"].startswith("-Xss4m -Dlog4j2")


@pytest.mark.parametrize("master", ["local[1,4]", "spark://host:7077"])
def test_the_executors_python_is_the_one_that_the_job_file_names(master):
    def python_of(**keys: str) -> str | None:
        config = load_job({**SMALLEST, **keys}, environ={})
        return environment(config.spark.conf, Master.parse(master), Path("/spark"), Path("/p")).get("PYSPARK_PYTHON")

    assert python_of(**{"job.spark.conf.spark.pyspark.python": "./env/bin/python"}) == "./env/bin/python"
    assert python_of() == (sys.executable if master.startswith("local") else None)


def test_sparks_home_is_a_folder_of_links_that_disappears_with_the_run(monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with TemporaryFolder("spark") as folder:
        home = spark_home(folder.path, on_this_machine=True)
        assert (home / "bin" / "spark-submit").is_file()
        assert (home / "jars").is_symlink()
        assert "rootLogger.level = off" in log_settings(folder.path, verbose=False).read_text()
        assert folder.path.stat().st_mode & 0o777 == 0o700
    assert not folder.path.exists()


def test_settings_go_by_a_file_that_only_this_user_reads_and_not_by_a_command_line(tmp_path):
    given = {"spark.hadoop.fs.s3a.secret.key": "hunter2 = \\ é", "spark.app.name": "a b"}
    path = spark_properties(tmp_path, given, tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert javaproperties.loads(path.read_text()) == given
    wanted = environment({}, Master.parse("local[1]"), Path("/spark"), path)
    assert wanted["PYSPARK_SUBMIT_ARGS"] == f"--properties-file {path} pyspark-shell"


DEFAULTS = "spark.app.name\tother\nspark.eventLog.dir = file:///tmp/é  \nsomething.else 1\n"


@pytest.mark.parametrize("variable", [True, False])
def test_the_defaults_of_a_spark_are_taken_for_whatever_the_run_does_not_set(variable, tmp_path, monkeypatch):
    conf = tmp_path / ("elsewhere" if variable else "home/conf")
    conf.mkdir(parents=True)
    (conf / "spark-defaults.conf").write_text(DEFAULTS, "utf-8")
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf) if variable else "")
    made = javaproperties.loads(spark_properties(tmp_path, {"spark.app.name": "counts"}, tmp_path / "home").read_text())
    assert made == {"spark.app.name": "counts", "spark.eventLog.dir": "file:///tmp/é"}


def test_defaults_of_a_spark_that_cannot_be_read_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_bytes(b"spark.app.name \xff")
    with pytest.raises(EnvironmentFailure, match=r"spark-defaults\.conf: cannot be read as a"):
        spark_properties(tmp_path, {}, tmp_path)


@pytest.mark.parametrize(
    "interval", ["spark.executor.failuresValidityInterval", "spark.yarn.am.attemptFailuresValidityInterval"]
)
def test_losses_of_long_ago_do_not_end_a_job_where_executors_start_on_demand(interval):
    assert settings("yarn")[interval] == settings("k8s://https://host")[interval] == "1h"
    assert settings("yarn", **{interval.replace(".", "_"): "3h"})[interval] == "3h"
    assert interval not in settings("spark://host:7077")


@pytest.mark.parametrize("settings_of", [added_settings, lambda job, master: spark_settings(job, master, Path("/l"))])
def test_executors_are_asked_for_where_they_start_on_demand_unless_the_job_file_says_how_many(settings_of):
    def asked(master: str, key: str = "spark.executor.instances", **keys: str) -> str | None:
        given = {f"job.spark.conf.spark.{name.replace('_', '.')}": value for name, value in keys.items()}
        job = load_job({**SMALLEST, **given})
        return settings_of(job, Master.parse(master).sized(job.spark.conf, 3, 1)).get(key)

    assert asked("yarn") == asked("k8s://https://host") == "4"
    assert asked("yarn", executor_instances="7") == "7"
    assert asked("spark://host:7077") is None
