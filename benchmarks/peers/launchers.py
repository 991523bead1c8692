"""How a peer comes to be installed and started: from PyPI, from Maven Central, by a C++ compiler, or as samzapy's job.

What is downloaded is kept below the cache folder (`peers` in SAMZAPY_CACHE, else in XDG_CACHE_HOME/samzapy, else in
~/.cache/samzapy), under a name that says what it was made of; a change of versions or programs makes a new one.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.kafka import CONFIGS, Kafka
from benchmarks.workloads.pipelines import keys_of
from samzapy.bench.measuring import LOCAL
from samzapy.devkafka.runtime import cache_folder
from samzapy.errors import EnvironmentFailure
from samzapy.java import SPARK, find_java

PROGRAMS = Path(__file__).parent / "programs"
JVM = Path(__file__).parent / "jvm"
LIMIT = Path(__file__).parents[1] / "limit" / "limit.cpp"
_INSTALLED = "installed"
KEYED_COUNT, PASS_THROUGH, REPARTITIONED = "keyed-count", "pass-through", "repartitioned-count"
#: samzapy's task class of a pipeline.
PIPELINED = "Pipelined"
AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"


class PeerUnavailable(EnvironmentFailure):
    """Raised when a peer cannot be installed here; the message is the reason."""


@dataclass(frozen=True)
class Settings:
    """One run: the broker, its topics, a name that nothing else on the broker has, a folder for local state, the file
    for the marks, the number of events, or 0 for a run without end, the milliseconds between commits, and the
    guarantee: at-least-once or exactly-once."""

    bootstrap: str
    input: str
    output: str
    workload: str
    id: str
    folder: Path
    marks: Path
    events: int
    commit_ms: int
    guarantee: str = AT_LEAST_ONCE

    @classmethod
    def on(cls, kafka: Kafka, topic: str, workload: str, events: int, commit_ms: int) -> Settings:
        """A run over a topic, with an output and a name of its own."""
        name = kafka.unique("peer")
        folder = kafka.folder / name
        marks = folder.with_suffix(".marks")
        return cls(kafka.bootstrap, topic, kafka.create("out"), workload, name, folder, marks, events, commit_ms)

    def arguments(self, more: Mapping[str, str]) -> list[str]:
        """As the programs take them."""
        pairs = {**vars(self), **more}
        return [part for name, value in pairs.items() for part in (f"--{name.replace('_', '-')}", str(value))]


class Launcher(ABC):
    """Installs and starts one peer."""

    @abstractmethod
    def install(self) -> None:
        """Make it ready, once. Raises PeerUnavailable."""

    @abstractmethod
    def command(self, settings: Settings) -> list[str]:
        """The command line of one run."""


@dataclass(frozen=True)
class PythonPeer(Launcher):
    """A program beside this one, in an environment with `requirements` from PyPI and, in the folder `lib`, the jars of
    `pom` and what they need."""

    program: str
    requirements: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    pom: str | None = None

    @property
    def _home(self) -> Path:
        jars = [(JVM / self.pom).read_text("utf-8")] if self.pom else []
        return _home(Path(self.program).stem, [platform.python_version(), *self.requirements, *jars])

    def install(self) -> None:
        if self.pom:
            _java()
        if (self._home / _INSTALLED).exists():
            return
        shutil.rmtree(self._home, ignore_errors=True)
        _do([sys.executable, "-m", "venv", str(self._home)])
        _do([str(self._home / "bin" / "python"), "-m", "pip", "install", "--quiet", *self.requirements])
        if self.pom:
            _maven(self.pom, self._home)
        (self._home / _INSTALLED).touch()

    def command(self, settings: Settings) -> list[str]:
        python = [str(self._home / "bin" / "python"), str(PROGRAMS / self.program)]
        return [*python, *settings.arguments(self.options)]


@dataclass(frozen=True)
class MavenPeer(Launcher):
    """A Java program of `jvm/peers`, with the dependencies of its pom. `options` are its own, beside the common
    ones."""

    pom: str
    main: str
    options: Mapping[str, str] = field(default_factory=dict)
    jvm: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The peer's, as the pom pins it."""
        return pinned(self.pom)

    @property
    def _home(self) -> Path:
        sources = [JVM / self.pom, *sorted((JVM / "peers").glob("*.java"))]
        return _home(Path(self.pom).stem, [path.read_text("utf-8") for path in sources])

    def install(self) -> None:
        _java()
        if (self._home / _INSTALLED).exists():
            return
        shutil.rmtree(self._home, ignore_errors=True)
        _maven(self.pom, self._home)
        (self._home / _INSTALLED).touch()

    def command(self, settings: Settings) -> list[str]:
        java = [_java(), "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", *self.jvm]
        path = f"{self._home / 'classes'}:{self._home / 'lib'}/*"
        return [*java, "-cp", path, f"peers.{self.main}", *settings.arguments(self.options)]


@dataclass(frozen=True)
class CompiledPeer(Launcher):
    """A program in C++ over the librdkafka and the simdjson of this system."""

    source: Path

    @property
    def _home(self) -> Path:
        return _home(self.source.stem, [self.source.read_text("utf-8")])

    def install(self) -> None:
        if (self._home / _INSTALLED).exists():
            return
        if shutil.which("g++") is None:
            raise PeerUnavailable("not built: there is no g++")
        self._home.mkdir(parents=True, exist_ok=True)
        options = ["-std=c++17", "-O2", "-o", str(self._home / self.source.stem)]
        try:
            _do(["g++", *options, str(self.source), "-lrdkafka", "-lsimdjson"])
        except PeerUnavailable as failure:
            raise PeerUnavailable(f"not built (Debian: librdkafka-dev, libsimdjson-dev): {failure}") from failure
        (self._home / _INSTALLED).touch()

    def command(self, settings: Settings) -> list[str]:
        return [str(self._home / self.source.stem), *settings.arguments({})]


@dataclass(frozen=True)
class SamzapyPeer(Launcher):
    """A job of samzapy: the task class by workload, further keys, in whose names `{input}` and `{output}` stand for
    topics, and the runner."""

    tasks: Mapping[str, str]
    keys: Mapping[str, str] = field(default_factory=dict)
    runner: str = LOCAL

    def install(self) -> None:
        """This environment has it."""

    def command(self, settings: Settings) -> list[str]:
        servers = "bootstrap.servers"
        keys = {
            **self._work(settings),
            "job.id": settings.id,
            "job.logged.store.base.dir": str(settings.folder),
            f"systems.kafka.consumer.{servers}": settings.bootstrap,
            f"systems.kafka.producer.{servers}": settings.bootstrap,
            "task.commit.ms": str(settings.commit_ms),
            "task.guarantee": settings.guarantee,
            "task.class": f"benchmarks.peers.samzapy_tasks:{self.tasks[settings.workload]}",
            "peer.marks": str(settings.marks),
            "peer.events": str(settings.events),
            **{key.format(input=settings.input, output=settings.output): value for key, value in self.keys.items()},
        }
        job = CONFIGS / f"{PASS_THROUGH if settings.workload == PASS_THROUGH else KEYED_COUNT}.properties"
        end = () if settings.events else ("--endless",)
        command = [sys.executable, "-m", "samzapy.bench.child", str(job), "--runner", self.runner, *end]
        return command + [part for key, value in keys.items() for part in ("--config", f"{key}={value}")]

    def _work(self, settings: Settings) -> dict[str, str]:
        """The keys of the inputs, stores and outputs."""
        source, output = f"kafka.{settings.input}", f"kafka.{settings.output}"
        changelog = {"stores.counts.changelog": f"kafka.{settings.id}-counts"}
        if settings.workload == REPARTITIONED:
            return {**keys_of(settings.id, source, by="page"), **changelog}
        if self.tasks[settings.workload] == PIPELINED:
            return keys_of(settings.id, source, output=output)
        return {"task.inputs": source, **({"bench.output": output} if settings.workload == PASS_THROUGH else changelog)}


def pinned(pom: str) -> str:
    """The version of the peer that a pom fetches."""
    result = ET.parse(JVM / pom).getroot().find(".//{*}peer.version")
    return result.text or "" if result is not None else ""


def _home(name: str, made_of: Sequence[str]) -> Path:
    digest = hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:12]
    return cache_folder() / "peers" / f"{name}-{digest}"


def _maven(pom: str, home: Path) -> None:
    if shutil.which("mvn") is None:
        raise PeerUnavailable("Maven (mvn) is not installed")
    _do(["mvn", "--batch-mode", "--quiet", "--file", str(JVM / pom), "package", f"-Dpeer.build={home}"])


def _java() -> str:
    try:
        return str(find_java(SPARK).command)
    except EnvironmentFailure as failure:
        raise PeerUnavailable(str(failure)) from failure


def _do(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise PeerUnavailable(f"{' '.join(command[:4])} ...: exit code {done.returncode}: {' | '.join(said[-3:])}")
