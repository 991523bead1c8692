import json
import os
import socket
import stat
from hashlib import sha512
from pathlib import Path

import psutil
import pytest

from samzapy import devkafka
from samzapy.devkafka import broker, runtime
from samzapy.devkafka.broker import answers, free_port, is_free
from samzapy.errors import EnvironmentFailure
from samzapy.java import KAFKA, find_java


@pytest.fixture
def jars(tmp_path):
    folder = tmp_path / "jars"
    folder.mkdir()
    for name in ("a.jar", "b.jar"):
        (folder / name).write_bytes(name.encode())
    return folder


PINNED = {name: sha512(name.encode()).hexdigest() for name in ("a.jar", "b.jar")}


@pytest.mark.parametrize("version", runtime.kafka_versions())
def test_the_pinned_jars_are_kafka_the_scala_it_is_built_for_and_one_logger(version):
    pinned = runtime.pinned_jars(version)
    assert f"org.apache.kafka_kafka_2.13-{version}.jar" in pinned
    assert len([name for name in pinned if name.startswith("org.scala-lang_scala-library-2.13.")]) == 1
    assert "org.slf4j_slf4j-simple-1.7.36.jar" in pinned
    assert not any("slf4j-reload4j" in name for name in pinned)
    assert all(len(digest) == 128 for digest in pinned.values())


def test_there_are_brokers_of_both_lines_of_kafka_and_the_default_is_one_of_them():
    assert {version.partition(".")[0] for version in runtime.kafka_versions()} == {"3", "4"}
    assert runtime.KAFKA_VERSION in runtime.kafka_versions()


@pytest.mark.parametrize(
    ("wanted", "variable", "version"),
    [(None, None, runtime.KAFKA_VERSION), (None, "3.9", "3.9."), ("4.1", "3.9", "4.1."), ("4.1.0", None, "4.1.0")],
)
def test_a_broker_has_the_version_that_is_asked_for_or_the_one_of_the_environment(
    wanted, variable, version, monkeypatch
):
    monkeypatch.setenv("SAMZAPY_KAFKA_VERSION", variable or "")
    assert runtime.chosen_version(wanted).startswith(version)


@pytest.mark.parametrize("wanted", ["2.8", "4.10", "4.1.0.1", "x"])
def test_a_version_without_pinned_jars_is_refused_with_those_that_have_them(wanted):
    with pytest.raises(EnvironmentFailure, match=rf"Kafka {wanted}: expected a version .*, one of 3\.9\..*, 4\.1\.0"):
        runtime.chosen_version(wanted)


def test_the_right_jars_are_accepted_and_remembered(jars, tmp_path):
    runtime.verify(jars, PINNED, tmp_path / "verified.json")
    assert set(json.loads((tmp_path / "verified.json").read_text())) == set(PINNED)


def test_a_tampered_jar_is_refused_by_name(jars, tmp_path):
    runtime.verify(jars, PINNED, tmp_path / "verified.json")
    (jars / "b.jar").write_bytes(b"evil.")
    with pytest.raises(EnvironmentFailure, match=r"b\.jar.*SHA-512"):
        runtime.verify(jars, PINNED, tmp_path / "verified.json")


def test_a_missing_jar_is_refused_by_name(jars, tmp_path):
    (jars / "a.jar").unlink()
    with pytest.raises(EnvironmentFailure, match=r"a\.jar: missing"):
        runtime.verify(jars, PINNED, tmp_path / "verified.json")


def test_a_jar_that_is_not_pinned_is_refused_by_name(jars, tmp_path):
    (jars / "c.jar").write_bytes(b"")
    with pytest.raises(EnvironmentFailure, match=r"c\.jar: is no pinned jar"):
        runtime.verify(jars, PINNED, tmp_path / "verified.json")


def test_an_unreadable_memory_means_verifying_again(jars, tmp_path):
    (tmp_path / "verified.json").write_text("{")
    runtime.verify(jars, PINNED, tmp_path / "verified.json")
    (jars / "a.jar").write_bytes(b"evil!")
    (tmp_path / "verified.json").write_text("[]")
    with pytest.raises(EnvironmentFailure):
        runtime.verify(jars, PINNED, tmp_path / "verified.json")


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("SAMZAPY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert runtime.cache_folder() == tmp_path / "samzapy"
    monkeypatch.setenv("SAMZAPY_CACHE", str(tmp_path / "own"))
    assert runtime.cache_folder() == tmp_path / "own"


def fake_java(folder, version):
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)


def test_nobody_answers_on_a_free_port():
    port = free_port()
    assert is_free(port)
    assert not answers(port, 0.2)


def test_a_folder_without_a_broker_has_no_status_and_nothing_to_stop(tmp_path):
    assert devkafka.status(tmp_path / "none") is None
    assert devkafka.stop(tmp_path / "none") is False
    assert devkafka.stop(tmp_path) is False


def test_a_pid_that_another_process_has_now_is_not_the_broker(tmp_path):
    found = broker.remember(tmp_path, os.getpid(), 9092, "4.1.0")
    assert broker.running_broker(tmp_path) == found
    (tmp_path / "broker.json").write_text(json.dumps({**found._asdict(), "born": found.born - 100}))
    assert broker.running_broker(tmp_path) is None
    assert broker.last_port(tmp_path) == 9092
    assert psutil.pid_exists(os.getpid())


def test_a_running_broker_of_another_version_or_port_is_refused_and_not_taken_for_the_one_asked_for(tmp_path):
    broker.remember(tmp_path, os.getpid(), 9092, "4.1.0")
    with pytest.raises(
        EnvironmentFailure, match=r"Kafka 3\.9: the broker of \S+ runs with version 4\.1\.0 already; stop"
    ):
        devkafka.start(tmp_path, 9092, "3.9")
    with pytest.raises(EnvironmentFailure, match=r"port 9093: the broker of \S+ runs on 127\.0\.0\.1:9092 already"):
        devkafka.start(tmp_path, 9093, "4.1")


def test_the_file_of_a_broker_of_an_older_release_is_read(tmp_path):
    found = broker.remember(tmp_path, os.getpid(), 9092, "4.1.0")._asdict()
    del found["version"], found["born"]
    (tmp_path / "broker.json").write_text(json.dumps(found))
    assert devkafka.status(tmp_path).version == ""
    (tmp_path / "broker.json").write_text(json.dumps({**found, "created": found["created"] - 100}))
    assert devkafka.status(tmp_path) is None


def test_a_clock_that_was_set_changes_nothing(tmp_path):
    found = broker.remember(tmp_path, os.getpid(), 9092, "4.1.0")
    moved = found._replace(created=found.created - 3600)
    (tmp_path / "broker.json").write_text(json.dumps(moved._asdict()))
    assert devkafka.status(tmp_path) == moved


def test_a_taken_port_is_refused(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(EnvironmentFailure, match=f"port {port}: something else listens"):
            devkafka.start(tmp_path, port)
    assert devkafka.status(tmp_path) is None


@pytest.mark.kafka
def test_starting_again_finds_the_running_broker(kafka_broker, kafka):
    running = kafka_broker.running
    assert kafka_broker.start() == kafka == running.bootstrap
    assert kafka_broker.running == running
    assert find_java(KAFKA).version >= 17


def test_jars_that_cannot_be_fetched_are_an_environment_failure_that_names_the_log(monkeypatch, tmp_path):
    fake_java(tmp_path, "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "https://mirror/maven/")
    with pytest.raises(
        EnvironmentFailure, match=r"cannot fetch Kafka 4\.1\.0 from https://mirror/maven/, see .*resolve\.log"
    ):
        runtime.kafka_class_path("4.1.0", tmp_path / "cache")
    home = tmp_path / "cache" / "kafka_2.13-4.1.0"
    assert not (home / "jars").exists()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_cache_that_cannot_be_made_is_an_environment_failure_that_names_another_place(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        EnvironmentFailure, match=r"file/kafka_2\.13-4\.1\.0: .* \(Not a directory\); set SAMZAPY_CACHE to"
    ):
        runtime.kafka_class_path("4.1.0", tmp_path / "file")


def test_a_user_without_a_home_is_an_environment_failure_that_names_the_way_out(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    for name in ("SAMZAPY_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(EnvironmentFailure, match=r"Could not determine home directory\. Set SAMZAPY_CACHE"):
        runtime.kafka_class_path("4.1.0")


def test_a_folder_that_cannot_be_written_to_is_an_environment_failure_that_names_it(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailure, match=r"file/broker: Kafka cannot be started in .* \(Not a directory\)"):
        devkafka.start(tmp_path / "file" / "broker")


def test_a_folder_that_is_there_keeps_its_rights(tmp_path):
    tmp_path.chmod(0o755)
    broker.remember(tmp_path, os.getpid(), 9092, "4.1.0")
    with pytest.raises(EnvironmentFailure, match="runs on"):
        devkafka.start(tmp_path, 9093)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
