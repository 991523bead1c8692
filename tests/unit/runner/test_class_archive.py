"""When Spark's JVMs start from an archive of their classes, and what Spark is told then."""

from pathlib import Path

import pytest

from samzapy.java import InstalledSpark, Java, cache_folder
from samzapy.runner import class_archive
from samzapy.runner.class_archive import ClassArchive, with_class_archive
from samzapy.runner.write_archive import _plain

SETTINGS = {"spark.driver.extraJavaOptions": "-Xss4m", "spark.app.name": "counts"}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A Java, a pyspark with two jars, a home of links to it, and a cache with nothing in it."""
    for name in class_archive._OWN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SAMZAPY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(class_archive, "installed_spark", lambda: InstalledSpark(tmp_path / "pyspark"))
    jars = tmp_path / "pyspark" / "jars"
    jars.mkdir(parents=True)
    for name in ("spark-core_2.13.jar", "spark-launcher_2.13.jar"):
        (jars / name).write_text(name)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "jars").symlink_to(jars)
    (tmp_path / "java").write_text("")
    return tmp_path


def java(machine: Path) -> Java:
    return Java(machine / "java", 17)


def archived(machine: Path) -> ClassArchive:
    archive = ClassArchive.of(java(machine))
    archive.file.parent.mkdir(parents=True, exist_ok=True)
    archive.file.write_text("classes")
    return archive


def test_without_an_archive_spark_starts_as_it_is(machine):
    assert with_class_archive(SETTINGS, machine / "home", java(machine)) == SETTINGS
    assert (machine / "home" / "jars").is_symlink()


def test_with_an_archive_both_jvms_get_it_and_the_jars_at_the_place_that_it_knows(machine):
    archive = archived(machine)
    made = with_class_archive(SETTINGS, machine / "home", java(machine))
    option = f"-Xshare:auto -XX:SharedArchiveFile={archive.file}"
    assert made["spark.driver.extraJavaOptions"] == f"-Xss4m {option}"
    assert made["spark.executor.extraJavaOptions"] == option
    assert made["spark.driver.extraClassPath"] == made["spark.executor.extraClassPath"] == f"{machine}/pyspark/jars/*"
    assert [jar.name for jar in (machine / "home" / "jars").iterdir()] == ["spark-launcher_2.13.jar"]
    assert made["spark.app.name"] == "counts"


def test_an_archive_for_other_jars_or_another_java_is_not_taken(machine):
    archive = archived(machine)
    (machine / "pyspark" / "jars" / "spark-core_2.13.jar").write_text("a newer one")
    assert not ClassArchive.of(java(machine)).usable
    assert ClassArchive.of(java(machine)).file.parent == archive.file.parent
    (machine / "java-25").write_text("")
    assert ClassArchive.of(Java(machine / "java-25", 25)).file.parent != archive.file.parent


def test_an_archive_that_others_can_write_is_not_taken(machine):
    archive = archived(machine)
    for path in (archive.file, archive.file.parent):
        before = path.stat().st_mode
        path.chmod(before | 0o020)
        assert not ClassArchive.of(java(machine)).usable
        path.chmod(before)
    assert ClassArchive.of(java(machine)).usable


@pytest.mark.parametrize(
    "own",
    [
        {"spark.driver.extraClassPath": "/mine.jar"},
        {"spark.executor.extraClassPath": "/mine.jar"},
        {"spark.executor.extraJavaOptions": "-Xshare:off"},
        {"spark.driver.extraJavaOptions": "-XX:SharedArchiveFile=/mine.jsa"},
    ],
)
def test_a_class_path_or_an_archive_of_the_users_own_is_left_alone(machine, own):
    archived(machine)
    given = {**SETTINGS, **own}
    assert with_class_archive(given, machine / "home", java(machine)) == given


@pytest.mark.parametrize("name", class_archive._OWN_VARIABLES)
def test_a_spark_of_the_users_own_is_left_alone(machine, monkeypatch, name):
    archived(machine)
    monkeypatch.setenv(name, "/mine")
    assert with_class_archive(SETTINGS, machine / "home", java(machine)) == SETTINGS


def test_the_lists_of_two_jvms_go_together_without_their_numbers():
    lines = [
        "# NOTE: Do not modify this file.",
        "java/lang/Object id: 0",
        "org/apache/spark/SparkContext id: 41",
        "some/Loaded id: 42 super: 0 source: file:/elsewhere.jar",
        "@lambda-proxy scala/Option apply ()Lscala/Function0;",
    ]
    assert list(_plain(lines)) == [
        "java/lang/Object",
        "org/apache/spark/SparkContext",
        "@lambda-proxy scala/Option apply ()Lscala/Function0;",
    ]


def test_the_cache_is_where_the_environment_says(machine):
    assert cache_folder() == machine / "cache"
    assert ClassArchive.of(java(machine)).file.is_relative_to(machine / "cache")
