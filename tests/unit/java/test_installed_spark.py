"""What is known about an installed Spark, of which only the files are there."""

import sys
import zipfile

import pytest

from samzapy.errors import EnvironmentFailure
from samzapy.java.finder import InstalledSpark, installed_spark

SUBJECT_UTIL = "org/apache/hadoop/security/authentication/util/SubjectUtil.class"


def spark_in(folder, version="4.1.2", **jars):
    package = folder / "pyspark"
    (package / "jars").mkdir(parents=True)
    (package / "version.py").write_text(f'# of a release\n__version__: str = "{version}"\n')
    for name, entry in jars.items():
        with zipfile.ZipFile(package / "jars" / f"{name.replace('_', '-')}-1.0.jar", "w") as jar:
            jar.writestr(entry, b"")
    return InstalledSpark(package)


def test_the_spark_of_these_tests_is_one_that_jobs_run_on():
    assert (3, 5) <= tuple(map(int, installed_spark().version.split("."))) < (5, 0)
    assert installed_spark().jar("ivy-*.jar").is_file()


def test_a_spark_whose_hadoop_asks_the_jvm_for_a_subject_does_not_start_on_java_23(tmp_path):
    spark = spark_in(tmp_path, hadoop_client_api="org/apache/hadoop/conf/Configuration.class")
    assert [spark.runs_on(java) for java in (17, 22, 23, 25)] == [True, True, False, False]


def test_a_spark_with_a_newer_or_an_unknown_hadoop_may_start_on_any_java(tmp_path):
    assert spark_in(tmp_path / "newer", hadoop_client_api=SUBJECT_UTIL).runs_on(25)
    assert spark_in(tmp_path / "unknown").runs_on(25)


def test_its_jars_are_those_of_spark_home_of_the_package_or_of_the_spark_around_it(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    spark = spark_in(tmp_path / "spark" / "python")
    (tmp_path / "spark" / "jars").mkdir()
    assert spark.jars == spark.package / "jars"
    (spark.package / "jars").rmdir()
    assert spark.jars == tmp_path / "spark" / "jars"
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "jars").mkdir(parents=True)
    assert spark.jars == tmp_path / "home" / "jars"


def test_without_pyspark_there_is_no_spark(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(EnvironmentFailure, match="pyspark is not installed"):
        installed_spark()
