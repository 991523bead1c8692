"""The place of an archive of classes, and what a run does with it; no JVM starts."""

import os
import sys
from pathlib import Path

import pytest

from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.java import Java, class_archive
from samzapy.java.archive import KEPT
from samzapy.runner.spark.jvm import archive_options, record_beside
from samzapy.runner.spark.jvm.recorder import check_archive, check_room, free_memory
from samzapy.runner.spark.master import Master, spark_settings
from samzapy.verify.processes import until

JOB = {
    "job.name": "counts",
    "task.class": "some.module:Task",
    "task.inputs": "memory.in",
    "systems.memory.samza.factory": "memory",
}
OPTION = "-XX:SharedArchiveFile="


@pytest.fixture
def java(tmp_path):
    """The files of a Java that count."""
    program, server = tmp_path / "java" / "bin" / "java", tmp_path / "java" / "lib" / "server"
    for folder in (program.parent, server):
        folder.mkdir(parents=True)
    program.touch()
    for name in ("libjvm.so", "classes.jsa"):
        (server / name).write_text(name)
    return Java(program, 17)


@pytest.fixture
def spark(tmp_path, monkeypatch):
    """The home of a Spark of one jar, and a cache of the test's own."""
    for name in ("SPARK_CONF_DIR", "SPARK_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SAMZAPY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "a.jar").write_text("a")
    return tmp_path / "spark"


@pytest.fixture
def archive(java, spark):
    return class_archive(java, spark)


def recorded(archive):
    with archive.recording() as alone:
        assert alone
        made = archive.folder / "recording.jsa"
        made.write_text("classes")
        archive.keep(made)


def test_an_archive_is_used_from_the_moment_that_it_is_complete(archive):
    assert archive_options(None) == archive_options(archive) == ""
    recorded(archive)
    assert (
        archive_options(archive)
        == f"{OPTION}{archive.file} -Xshare:auto -XX:+VerifySharedSpaces -Xlog:cds=off -Xlog:cds+dynamic=off"
    )
    assert sorted(each.name for each in archive.folder.iterdir()) == ["classes.jsa", "lock", "size"]


def test_another_java_and_other_jars_have_an_archive_of_their_own(java, spark, archive):
    assert class_archive(java, spark) == archive
    (spark / "jars" / "b.jar").touch()
    with_jar = class_archive(java, spark)
    os.utime(spark / "jars" / "b.jar", (1, 1))
    with_new_jar = class_archive(java, spark)
    (java.command.parents[1] / "lib" / "server" / "libjvm.so").write_text("newer")
    assert len({archive, with_jar, with_new_jar, class_archive(java, spark)}) == 4


def test_the_same_spark_by_another_path_has_the_same_archive(java, spark, archive, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "jars").symlink_to(spark / "jars")
    assert class_archive(java, tmp_path / "run") == archive


def test_there_is_none_for_a_spark_with_a_configuration_folder(java, spark, tmp_path, monkeypatch):
    (spark / "conf").mkdir()
    assert class_archive(java, spark) is None
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "missing"))
    assert class_archive(java, spark) is not None


def test_there_is_none_for_a_java_that_brings_none(java, spark):
    (java.command.parents[1] / "lib" / "server" / "classes.jsa").unlink()
    assert class_archive(java, spark) is None


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"])
def test_there_is_none_where_the_environment_has_an_agent(java, spark, monkeypatch, variable):
    monkeypatch.setenv(variable, "-Xss4m")
    assert class_archive(java, spark) is not None
    monkeypatch.setenv(variable, "-javaagent:/agent.jar")
    assert class_archive(java, spark) is None


@pytest.mark.parametrize("cache", ["a b", "a:b", "relative"])
def test_there_is_none_at_a_path_that_an_option_cannot_name(java, spark, tmp_path, monkeypatch, cache):
    monkeypatch.setenv("SAMZAPY_CACHE", cache if cache == "relative" else str(tmp_path / cache))
    assert class_archive(java, spark) is None


@pytest.mark.parametrize("of", [lambda archive: archive.folder, lambda archive: archive.folder.parent])
def test_what_others_could_have_written_is_not_used(archive, of):
    recorded(archive)
    assert of(archive).stat().st_mode & 0o777 == 0o700
    of(archive).chmod(0o770)
    assert not archive.is_recorded


def test_an_archive_that_was_cut_off_is_not_used_and_is_recorded_again(archive):
    recorded(archive)
    archive.file.write_text("class")
    assert archive_options(archive) == ""
    recorded(archive)
    (archive.folder / "size").write_text("")
    assert archive_options(archive) == ""
    recorded(archive)
    assert archive.is_recorded


def test_one_process_records_at_a_time(archive):
    with archive.recording() as first, archive.recording() as second:
        assert (first, second) == (True, False)
    with archive.recording() as third:
        assert third


def test_the_archives_that_were_not_used_for_longest_go(java, spark):
    made = []
    for number in range(KEPT + 2):
        (spark / "jars" / f"{number}.jar").touch()
        made.append(class_archive(java, spark))
        recorded(made[-1])
        os.utime(made[-1].folder, (number, number))
        if number == 2:
            # It was the oldest, and is used now.
            made[0].used()
    assert [each.is_recorded for each in made] == [True, False, False, True, True, True]


def test_an_archive_that_is_being_recorded_stays(java, spark):
    oldest = class_archive(java, spark)
    with oldest.recording():
        os.utime(oldest.folder, (1, 1))
        for number in range(KEPT + 1):
            (spark / "jars" / f"{number}.jar").touch()
            recorded(class_archive(java, spark))
        assert oldest.folder.is_dir()


def test_recordings_that_fail_again_and_again_are_given_up(archive):
    with archive.recording():
        for reason in ("no room", "killed\nby the system", "no room"):
            assert not archive.is_hopeless
            archive.failed(reason)
    assert archive.is_hopeless
    record_beside(archive)
    assert not archive.is_recorded


def test_a_cache_that_cannot_be_written_is_an_error_of_the_recording_alone(archive):
    archive.folder.parent.parent.write_text("in the way")
    assert archive_options(archive) == ""
    with pytest.raises(OSError), archive.recording():
        pass


def settings(master, **conf):
    given = {f"job.spark.conf.spark.{key.replace('_', '.')}": value for key, value in conf.items()}
    made = spark_settings(load_job({**JOB, **given}, environ={}), Master.parse(master), Path("/l"), f"{OPTION}/a.jsa")
    return [made.get(f"spark.{jvm}.extraJavaOptions", "") for jvm in ("driver", "executor")]


def test_the_driver_has_the_archive_and_so_have_executors_on_this_machine():
    for master in ("local[1,4]", "local-cluster[2,1,1024]"):
        assert all(options.startswith("-XX:Tiered") and OPTION in options for options in settings(master))
    driver, executor = settings("spark://host:7077")
    assert driver == f"{OPTION}/a.jsa -Dlog4j2.configurationFile=file:///l"
    assert executor == ""


def test_a_users_own_options_stay_and_those_about_archives_or_agents_win():
    driver, executor = settings("local[1]", driver_extraJavaOptions="-Xss4m", executor_extraJavaOptions="-Xss8m")
    assert driver.startswith(f"-Xss4m {OPTION}/a.jsa")
    assert executor == f"-Xss8m {OPTION}/a.jsa"
    for own in ("-Xshare:off", "-XX:SharedArchiveFile=/own.jsa", "-javaagent:/a.jar", "-XX:+AutoCreateSharedArchive"):
        driver, executor = settings("local[1]", driver_extraJavaOptions=own, executor_extraJavaOptions=own)
        assert executor == own
        assert f"{OPTION}/a.jsa" not in driver


def test_a_job_has_to_ask_for_it():
    assert not load_job(JOB, environ={}).spark.class_archive
    assert load_job({**JOB, "job.spark.class.archive": "true"}, environ={}).spark.class_archive


def test_an_archive_that_java_refuses_is_not_kept(java, tmp_path):
    java.command.write_text("#!/bin/sh\necho 'An error has occurred'\nexit 1\n")
    java.command.chmod(0o755)
    with pytest.raises(EnvironmentFailure, match="refuses the archive: An error has occurred"):
        check_archive(tmp_path / "recording.jsa", java, "a.jar")
    java.command.write_text("#!/bin/sh\nexit 0\n")
    check_archive(tmp_path / "recording.jsa", java, "a.jar")


def test_a_recording_does_not_begin_on_a_machine_without_room(tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 1 << 20})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(EnvironmentFailure, match=r"has .* B free, expected at least"):
        check_room(tmp_path)


def test_the_memory_of_a_control_group_counts_without_its_cached_files(tmp_path):
    group = (str(tmp_path), "memory.max", "memory.current", "inactive_file")
    assert free_memory(1_000, [group]) == 1_000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 100\ninactive_file 300\n")
    assert free_memory(1_000, [group]) == 1_000
    (tmp_path / "memory.max").write_text("900\n")
    assert free_memory(1_000, [group]) == 500


def test_the_recording_is_a_program_of_its_own_that_knows_nothing_of_the_run(archive, tmp_path, monkeypatch):
    program, said = tmp_path / "python", tmp_path / "said"
    program.write_text(f"#!/bin/sh\n{{ echo $PPID $@; pwd; env; }} > {said}.new\nmv {said}.new {said}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setenv("SAMZAPY_TOKEN", "secret")
    record_beside(archive)
    until(said.exists, "the program")
    words, folder, *variables = said.read_text().splitlines()
    parent, *arguments = words.split()
    assert int(parent) != os.getpid()
    assert arguments == ["-m", "samzapy.runner.spark.jvm.recorder"]
    assert folder == "/"
    assert f"SAMZAPY_CACHE={tmp_path / 'cache'}" in variables
    assert not any("secret" in each for each in variables)
