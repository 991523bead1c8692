"""Fetches and checks the jars of Kafka's server.

Spark's own resolver fetches the jars once from Maven Central; each is pinned by its SHA-512.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from samzapy.errors import EnvironmentFailure
from samzapy.java import KAFKA, cache_folder, find_java

KAFKA_VERSION = "4.1.0"

#: Kafka, and a logger that writes to stderr: without one Kafka's own log lines are lost.
_PACKAGES = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION},org.slf4j:slf4j-simple:1.7.36"
_LONGEST_FETCH_S = 600
#: Another process, because Spark's resolver lives in a JVM that ends with its driver.
_RESOLVER = "from pyspark.java_gateway import launch_gateway; launch_gateway().shutdown()"


def kafka_folder() -> Path:
    """Where the jars are kept."""
    return cache_folder() / f"kafka-{KAFKA_VERSION}"


def pinned_jars() -> dict[str, str]:
    """The SHA-512 of each jar by file name, as this release was tested with."""
    lines = files("samzapy.devkafka").joinpath("jars.sha512").read_text("ascii").splitlines()
    return {name: digest for digest, name in map(str.split, lines)}


def kafka_class_path(folder: Path | None = None) -> str:
    """A class path that runs Kafka's server, from the cache or else from Maven Central (about 37 MB, once).

    Raises EnvironmentFailure if a jar cannot be fetched, is missing or is not the pinned one.
    """
    home = folder or kafka_folder()
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    jars = home / "jars"
    with _locked(home / "lock"):
        if not jars.is_dir():
            _fetch(home, jars)
        verify(jars, pinned_jars(), home / "verified.json")
    return os.pathsep.join([f"{jars}{os.sep}*", str(_scala_library())])


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
    strangers = {path.name for path in jars.iterdir()} - pinned.keys()
    if strangers:
        raise EnvironmentFailure(f"{jars / min(strangers)}: is no pinned jar; delete {jars} and start again")
    if seen != known:
        memory.write_text(json.dumps(seen))


def _fetch(home: Path, jars: Path) -> None:
    log = home / "resolve.log"
    with tempfile.TemporaryDirectory(dir=home, prefix="ivy-") as ivy:
        submit = f"--packages {_PACKAGES} --conf spark.jars.ivy={ivy} pyspark-shell"
        java = find_java(KAFKA).environment(Path(ivy))
        environment = {**os.environ, **java, "PYSPARK_SUBMIT_ARGS": submit}
        try:
            with log.open("wb") as output:
                subprocess.run(
                    [sys.executable, "-c", _RESOLVER],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=_LONGEST_FETCH_S,
                    check=True,
                )
        except (OSError, subprocess.SubprocessError) as cause:
            message = f"cannot fetch Kafka {KAFKA_VERSION} from Maven Central, see {log}"
            raise EnvironmentFailure(message) from cause
        shutil.move(Path(ivy, "jars"), jars)


def _scala_library() -> Path:
    """The Scala library: Spark's resolver leaves it out, because Spark ships it."""
    spec = find_spec("pyspark")
    roots = spec.submodule_search_locations if spec else None
    for root in roots or ():
        for jar in sorted(Path(root, "jars").glob("scala-library-2.13.*.jar")):
            return jar
    raise EnvironmentFailure("pyspark's jars hold no scala-library-2.13: install pyspark 4 again")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
