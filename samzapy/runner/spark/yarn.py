"""Reads the settings of YARN's clients: where the ResourceManager is.

Spark finds them by the variables `HADOOP_CONF_DIR` and `YARN_CONF_DIR`, folders with `yarn-site.xml`. A driver in
YARN's cluster mode also has the files of the submitting machine, in its working directory. Settings `spark.hadoop.*`
take precedence over all files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as ET

from samzapy.errors import EnvironmentFailure

_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_SITE = "yarn-site.xml"
_SUBMITTED = Path("__spark_conf__", "__hadoop_conf__")
#: Variables of a Spark of the user's own, which may set the others in its `spark-env.sh`.
_OWN_SPARK = ("SPARK_HOME", "SPARK_CONF_DIR")
#: Settings of Spark that it passes on to Hadoop's libraries.
_HADOOP = "spark.hadoop."
_MANAGER = "yarn.resourcemanager"

_REFERENCE = re.compile(r"\$\{([^}$\s]+)\}")
#: Most references in a value, as Hadoop has it.
_MOST_REFERENCES = 20


def check_yarn(environ: Mapping[str, str]) -> None:
    """Raise EnvironmentFailure if Spark would not find the settings: without the variables it refuses to start, and without the file it
    asks this machine for a ResourceManager, again and again."""
    if any(environ.get(name) for name in _OWN_SPARK):
        return
    given = {name: environ[name] for name in _VARIABLES if environ.get(name)}
    if not given:
        raise EnvironmentFailure(
            f"Spark finds YARN by {' or '.join(_VARIABLES)}, and neither is set: set one to the folder of the cluster's {_SITE}"
        )
    if not any(Path(folder, _SITE).is_file() for folder in given.values()):
        places = ", ".join(f"{name}={folder}" for name, folder in given.items())
        raise EnvironmentFailure(f"{places}: no {_SITE} there; set it to the folder of the cluster's {_SITE}")


def yarn_settings(environ: Mapping[str, str], conf: Mapping[str, str]) -> dict[str, str]:
    """The settings in the first readable `yarn-site.xml` of the folders, and in Spark's settings `conf`."""
    folders = [*(Path(folder) for name in _VARIABLES if (folder := environ.get(name))), _SUBMITTED]
    read = next((found for folder in folders if (found := _read(folder / _SITE)) is not None), {})
    return {**read, **{key.removeprefix(_HADOOP): value for key, value in conf.items() if key.startswith(_HADOOP)}}


def _read(path: Path) -> dict[str, str] | None:
    with suppress(OSError, ET.ParseError):
        root = ET.parse(path).getroot()  # noqa: S314  # the administrator's own file
        named = ((each.findtext("name"), each.findtext("value")) for each in root.iter("property"))
        return {name.strip(): value.strip() for name, value in named if name and value}
    return None


def resource_managers(settings: Mapping[str, str]) -> Iterator[str]:
    """HOST[:PORT] of each ResourceManager in the settings: of one, or of several that stand in for each other."""
    ids = settings.get(f"{_MANAGER}.ha.rm-ids", "").replace(",", " ").split()
    for suffix in (*(f".{each}" for each in ids), ""):
        for key in ("address", "hostname"):
            value = _expanded(settings, settings.get(f"{_MANAGER}.{key}{suffix}", ""))
            # The wildcard is YARN's default, for a ResourceManager on the same machine as its clients.
            if value and not value.startswith("0.0.0.0"):  # noqa: S104  # compared, not bound
                yield value


def _expanded(settings: Mapping[str, str], value: str) -> str:
    """The value with each `${key}` replaced, as Hadoop does it; empty if they lead nowhere."""
    for _ in range(_MOST_REFERENCES):
        found = _REFERENCE.search(value)
        if found is None:
            return value
        value = value.replace(found[0], settings.get(found[1], ""))
    return ""
