"""Fetches and checks the jars of Kafka's servers, and writes `server.properties` for a broker: one node, loopback only.

Ivy, which comes with pyspark, fetches the jars of a version once from Maven Central, with their version of Scala.
Each jar is pinned by its SHA-512: a file of `pinned` lists the hashes of a version.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from samzapy.errors import EnvironmentFailure
from samzapy.java import KAFKA, find_java, installed_spark

#: The default version of a broker.
KAFKA_VERSION = "4.1.0"
#: Names the version of brokers for which the code names none: tests, and the programs that they start.
KAFKA_VERSION_VARIABLE = "SAMZAPY_KAFKA_VERSION"

#: Names the repository that Spark's own resolver asks first. Without it Ivy asks Maven Central.
_REPOSITORY_VARIABLE = "DEFAULT_ARTIFACT_REPOSITORY"
_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir={cache}/>
  <resolvers><ibiblio name="central" m2compatible="true"{root}/></resolvers>
</ivysettings>
"""
#: Kafka, and a logger that writes to stderr: without one Kafka's own log lines are lost. Kafka 3 brings one that needs
#: a file of settings.
_WANTED = """\
<ivy-module version="2.0">
  <info organisation="samzapy" module="broker"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev={version} conf="default->default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default"/>
    <exclude org="org.slf4j" module="slf4j-reload4j"/>
  </dependencies>
</ivy-module>
"""
_NAME = "[organisation]_[artifact]-[revision].[ext]"
_LONGEST_FETCH_S = 600


def kafka_versions() -> tuple[str, ...]:
    """The versions of Kafka with pinned jars, the newest last."""
    result = (path.name.removesuffix(".sha512") for path in files("samzapy.devkafka").joinpath("pinned").iterdir())
    return tuple(sorted(result, key=lambda version: [int(part) for part in version.split(".")]))


def chosen_version(given: str | None) -> str:
    """The version for `given`, in full (`3.9.1`) or in part (`3.9`: its newest); for None SAMZAPY_KAFKA_VERSION, or
    else `KAFKA_VERSION`. Raises EnvironmentFailure for one without pinned jars."""
    name = given or os.environ.get(KAFKA_VERSION_VARIABLE) or KAFKA_VERSION
    known = kafka_versions()
    result = [version for version in known if f"{version}.".startswith(f"{name}.")]
    if not result:
        raise EnvironmentFailure(f"Kafka {name}: expected a version of a development broker, one of {', '.join(known)}")
    return result[-1]


def pinned_jars(version: str) -> dict[str, str]:
    """The SHA-512 of each jar by file name, as this release was tested with."""
    lines = files("samzapy.devkafka").joinpath("pinned").joinpath(f"{version}.sha512").read_text("ascii").splitlines()
    return {name: digest for digest, name in map(str.split, lines)}


def cache_folder() -> Path:
    """The folder of downloads: SAMZAPY_CACHE, else XDG_CACHE_HOME/samzapy, else ~/.cache/samzapy."""
    own, xdg = os.environ.get("SAMZAPY_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own) if own else Path(xdg or Path.home() / ".cache") / "samzapy"


def kafka_class_path(version: str, cache: Path | None = None) -> str:
    """A class path that runs that version of Kafka's server, from the cache or else from Maven Central (about 43 MB,
    once).

    Raises EnvironmentFailure if a jar cannot be fetched or kept, is missing or is not the pinned one.
    """
    try:
        # Absolute, because the broker runs in another folder.
        home = (cache or cache_folder()).absolute() / f"kafka_2.13-{version}"
    except RuntimeError as cause:  # a user without a home
        raise EnvironmentFailure(f"no folder for Kafka's jars: {cause} Set SAMZAPY_CACHE to one") from cause
    try:
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o700)
    except OSError as cause:
        message = f"{home}: Kafka's jars cannot be kept there ({cause.strerror}); set SAMZAPY_CACHE to another folder"
        raise EnvironmentFailure(message) from cause
    jars = home / "jars"
    with locked(home):
        if not jars.is_dir():
            fetch(version, home, jars)
        verify(jars, pinned_jars(version), home / "verified.json")
    return f"{jars}{os.sep}*"


def verify(jars: Path, pinned: Mapping[str, str], memory: Path) -> None:
    """Raise EnvironmentFailure unless the folder holds exactly the pinned jars.

    The file `memory` keeps the size and time of each verified jar, so that only changed jars are read again.
    """
    try:
        known = json.loads(memory.read_text())
    except (OSError, ValueError):
        known = {}
    if not isinstance(known, dict):
        known = {}
    seen = {}
    for name, digest in pinned.items():
        jar = jars / name
        if not jar.is_file():
            raise EnvironmentFailure(f"{jar}: missing; delete {jars} and start again")
        stat = jar.stat()
        seen[name] = [stat.st_size, stat.st_mtime_ns, digest]
        if known.get(name) != seen[name] and hashlib.sha512(jar.read_bytes()).hexdigest() != digest:
            raise EnvironmentFailure(f"{jar}: its SHA-512 is not the pinned one; delete {jars} and start again")
    unpinned = {path.name for path in jars.iterdir()} - pinned.keys()
    if unpinned:
        raise EnvironmentFailure(f"{jars / min(unpinned)}: is no pinned jar; delete {jars} and start again")
    if seen != known:
        memory.write_text(json.dumps(seen))


def fetch(version: str, home: Path, jars: Path) -> None:
    """Fetch the jars of a version into the new folder `jars`, unchecked; Ivy's output is in `home`/resolve.log. Raises
    EnvironmentFailure."""
    log, java, ivy = home / "resolve.log", find_java(KAFKA).line, installed_spark().jar("ivy-*.jar")
    with tempfile.TemporaryDirectory(dir=home, prefix="ivy-") as scratch:
        settings, module, result = (Path(scratch, name) for name in ("settings.xml", "wanted.xml", "jars"))
        repository = os.environ.get(_REPOSITORY_VARIABLE)
        root, source = (f" root={quoteattr(repository)}", repository) if repository else ("", "Maven Central")
        cache = quoteattr(str(Path(scratch, "cache")))
        settings.write_text(_SETTINGS.format(cache=cache, root=root), "utf-8")
        module.write_text(_WANTED.format(version=quoteattr(version)), "utf-8")
        command = [*java, "-cp", str(ivy), "org.apache.ivy.Main", "-settings", str(settings), "-ivy", str(module)]
        try:
            with log.open("wb") as output:
                subprocess.run(
                    [*command, "-retrieve", str(result / _NAME)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=_LONGEST_FETCH_S,
                    check=True,
                )
            shutil.move(result, jars)
        except (OSError, subprocess.SubprocessError) as cause:
            raise EnvironmentFailure(f"cannot fetch Kafka {version} from {source}, see {log}") from cause


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Allow one process at a time in a folder; wait for the one that is there."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


#: The folder of the data, relative to the working folder of the broker.
DATA = "data"


class Listener(NamedTuple):
    """A further address of the broker, on loopback like the others. `name` is unique (`PROXIED`), `protocol` one of
    PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL; clients connect to `advertised_port`, by default the port itself."""

    name: str
    protocol: str
    port: int
    advertised_port: int | None = None


def server_properties(
    port: int, controller_port: int, listeners: Sequence[Listener] = (), properties: Mapping[str, str] | None = None
) -> str:
    """The text of `server.properties`: one node, loopback only, no automatic topics, short time-outs.

    The broker talks to itself, and answers the probe, on `port`; `listeners` are further addresses for clients.
    `properties` override all others.
    """
    own = Listener("PLAINTEXT", "PLAINTEXT", port)
    open_to_clients = [own, *listeners]
    protocols = {"CONTROLLER": "PLAINTEXT"} | {item.name: item.protocol for item in open_to_clients}
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": _addresses(
            [*open_to_clients, Listener("CONTROLLER", "PLAINTEXT", controller_port)], advertised=False
        ),
        "advertised.listeners": _addresses(open_to_clients, advertised=True),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        # Kafka would split an absolute path at its commas. This one is relative to the broker's working folder.
        "log.dirs": DATA,
        "auto.create.topics.enable": "false",
        "default.replication.factor": 1,
        "min.insync.replicas": 1,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        # After a kill, a new broker may register only when the old session has expired: 9 s by default.
        "broker.heartbeat.interval.ms": 1000,
        "broker.session.timeout.ms": 3000,
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.dedupe.buffer.size": 16_777_216,
        "log.cleaner.backoff.ms": 1000,
        **(properties or {}),
    }
    return _escaped("".join(f"{key}={value}\n" for key, value in settings.items()))


def _escaped(text: str) -> str:
    """The text in ASCII, with Java's escapes for other characters: Kafka reads the file as Latin-1."""
    return "".join(item if item.isascii() else json.dumps(item)[1:-1] for item in text)


def _addresses(listeners: Sequence[Listener], *, advertised: bool) -> str:
    return ",".join(
        f"{item.name}://127.0.0.1:{(advertised and item.advertised_port) or item.port}" for item in listeners
    )


def new_cluster_id() -> str:
    """A fresh id in Kafka's form: 16 bytes, URL-safe base64 without padding; never with a leading dash."""
    return "s" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:21] + "A"
