import errno
import json
import os
import socket
import stat
from hashlib import sha512
from pathlib import Path

import psutil
import pytest

from samzapy.devkafka import DevBroker, broker, runtime
from samzapy.devkafka.broker import free_port
from samzapy.devkafka.runtime import server_properties
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


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("SAMZAPY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert runtime.cache_folder() == tmp_path / "samzapy"
    monkeypatch.setenv("SAMZAPY_CACHE", str(tmp_path / "own"))
    assert runtime.cache_folder() == tmp_path / "own"


def fake_java(folder, version, run="exit 0"):
    """A Java that tells its version, and does `run` for anything else."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; else {run}; fi\n'
    )
    java.chmod(java.stat().st_mode | stat.S_IXUSR)


def as_java_reads(text):
    """The keys and values of a properties file, by the rules of java.util.Properties.load(InputStream)."""
    lines = (
        text.encode("ascii").decode("unicode-escape").encode("utf-16", "surrogatepass").decode("utf-16").splitlines()
    )
    return dict(line.split("=", 1) for line in lines)


def test_a_broker_is_told_its_folder_by_a_name_that_java_reads_as_it_is_and_that_is_one_folder():
    assert as_java_reads(server_properties(9092, 9093))["log.dirs"] == "data"


@pytest.mark.parametrize("value", ["größe", "журнал", "a😀b"])
def test_a_setting_that_is_not_ascii_reaches_the_broker_unchanged(value):
    text = server_properties(9092, 9093, properties={"ssl.keystore.location": f"/home/{value}/keys.pem"})
    assert as_java_reads(text)["ssl.keystore.location"] == f"/home/{value}/keys.pem"


@pytest.fixture
def without_jars(tmp_path, monkeypatch):
    """A machine where the Java of a broker does `run`, in a folder that is formatted already or not."""

    def machine(run, *, formatted):
        fake_java(tmp_path / "java", "17", run)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
        monkeypatch.setattr(broker, "kafka_class_path", lambda version: "none")
        folder = tmp_path / "größe, a"
        (folder / "data").mkdir(parents=True)
        if formatted:
            (folder / "data" / "meta.properties").touch()
        return folder

    return machine


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Exception: it is taken\\n\\tat kafka.Tool.main(Tool.scala)\\n\\t... 2 more", "Exception: it is taken"),
        ("", "exit code 1"),
    ],
)
def test_a_format_that_fails_is_told_with_javas_reason_and_not_with_its_stack(without_jars, said, reason):
    folder = without_jars(f"printf '{said}' >&2; exit 1", formatted=False)
    with pytest.raises(EnvironmentFailure, match=rf"data: cannot be formatted for Kafka: {reason}$"):
        DevBroker(folder, free_port()).start()


def test_java_gets_names_below_the_folder_in_which_it_runs_and_no_path_that_it_may_read_otherwise(without_jars):
    folder = without_jars('echo "$PWD" "$@" > arguments; exit 1', formatted=False)
    with pytest.raises(EnvironmentFailure, match="cannot be formatted"):
        DevBroker(folder, free_port()).start()
    told = (folder / "arguments").read_text().removeprefix(str(folder))
    assert told.split()[-2:] == ["-c", "server.properties"]
    assert folder.name not in told


def test_a_broker_that_cannot_be_remembered_does_not_run_on(without_jars, monkeypatch):
    def full(*parts):
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = without_jars("exec sleep 20", formatted=True)
    monkeypatch.setattr(broker, "remember", full)
    with pytest.raises(EnvironmentFailure, match="No space left on device"):
        DevBroker(folder, free_port()).start()
    children = [each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]
    assert str(folder) not in [each.cwd() for each in children]


def test_a_record_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    found = broker.remember(tmp_path, os.getpid(), 9092, "4.1.0")

    def cut_off(path, text):
        with path.open("w") as file:
            file.write(text[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", cut_off)
    with pytest.raises(OSError, match="No space"):
        broker.remember(tmp_path, os.getpid(), 9093, "4.1.0")
    assert broker.running_broker(tmp_path) == found


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
        DevBroker(tmp_path, 9092, version="3.9").start()
    with pytest.raises(EnvironmentFailure, match=r"port 9093: the broker of \S+ runs on 127\.0\.0\.1:9092 already"):
        DevBroker(tmp_path, 9093, version="4.1").start()


def test_a_taken_port_is_refused(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(EnvironmentFailure, match=f"port {port}: something else listens"):
            DevBroker(tmp_path, port).start()
    assert DevBroker(tmp_path).running is None


@pytest.mark.kafka
def test_starting_again_finds_the_running_broker(kafka_broker, kafka):
    running = kafka_broker.running
    assert kafka_broker.start() == kafka == running.bootstrap
    assert kafka_broker.running == running
    assert find_java(KAFKA).version >= 17


@pytest.mark.parametrize("mirror", [("https://mirror/maven/", "https://mirror/maven/"), ("", "Maven Central")])
def test_jars_that_cannot_be_fetched_are_an_environment_failure_that_names_the_log(mirror, monkeypatch, tmp_path):
    fake_java(tmp_path, "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    repository, source = mirror
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", repository)
    with pytest.raises(EnvironmentFailure, match=rf"cannot fetch Kafka 4\.1\.0 from {source}, see .*resolve\.log"):
        runtime.kafka_class_path("4.1.0", tmp_path / "cache")
    home = tmp_path / "cache" / "kafka_2.13-4.1.0"
    assert not (home / "jars").exists()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_a_cache_below_the_current_folder_is_found_by_a_broker_that_runs_in_another(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAMZAPY_CACHE", "cache")
    monkeypatch.setattr(runtime, "fetch", lambda version, home, jars: jars.mkdir())
    monkeypatch.setattr(runtime, "pinned_jars", lambda version: {})
    assert runtime.kafka_class_path("4.1.0") == f"{tmp_path}/cache/kafka_2.13-4.1.0/jars/*"


def test_a_folder_that_cannot_be_written_to_is_an_environment_failure_that_names_it(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFailure, match=r"file/broker: Kafka cannot be started in .* \(Not a directory\)"):
        DevBroker(tmp_path / "file" / "broker").start()
