"""Packs the environment of a job's executors: samzapy, its dependencies and the job's own, as installed here.

    bin/python -> the interpreter of the executors' hosts
    pyvenv.cfg
    lib/python3.11/site-packages/...

1. pyspark and py4j stay out: a cluster brings its own Spark. They are most of an environment (`LEFT_OUT`).
2. Driver and executors get the same versions, because the files are copied from this environment. Nothing is
   downloaded.
3. The hosts need a Python of the same minor version; the archive is a virtual environment of that one.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from samzapy import errors
from samzapy.config.reading.properties import MASK, without_password
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, raise_if_any

LEFT_OUT = frozenset({"pyspark", "py4j"})

_OWN = "samzapy"
_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
_PACKAGES = f"lib/{_PYTHON}/site-packages"
#: A comment, or an option of a requirement.
_AFTER = re.compile(r"(^|\s)(#|--\S).*$")
_URL_USER = re.compile(r"(://)[^\s/@]+@")


@dataclass(frozen=True)
class Packed:
    """A written archive. `versions`: the packages in it; `unpacked`: the size of its files, in bytes, as `size`."""

    versions: dict[str, str]
    size: int
    unpacked: int


@dataclass(frozen=True)
class Requested:
    """A requirement and its place: a file with a line, or the package that has it, by its `extra`."""

    requirement: Requirement
    where: str
    extra: str = ""


def default_interpreter() -> Path:
    """The interpreter that this environment was made from."""
    return Path(sys.base_prefix, "bin", _PYTHON)


def pack(archive: Path, requirements: Path | None = None, interpreter: Path | None = None) -> Packed:
    """Write the archive, whole or not at all. `requirements`: a file of the job's own packages, as pip reads it.
    `interpreter`: the place of Python on the executors' hosts; None if it is where it is here.

    Raises ConfigError for another suffix than .tar.gz or .tgz (Spark unpacks by it), and for requirements that cannot
    be read, are not installed here or have another version; EnvironmentFailure if the archive cannot be written.
    """
    if not archive.name.endswith((".tar.gz", ".tgz")):
        raise ConfigError.of("archive", str(archive), "expected a name that ends in .tar.gz or .tgz")
    requested = [Requested(Requirement(_OWN), _OWN), *(read_requirements(requirements) if requirements else ())]
    packages = closure(requested)
    part = archive.with_name(f".{archive.name}.{os.getpid()}")
    try:
        with tarfile.open(part, "w:gz", compresslevel=6) as tar:
            unpacked = sum(_add_package(tar, item) for item in packages.values())
            _add_python(tar, interpreter or default_interpreter())
        part.replace(archive)
    except OSError as cause:
        raise EnvironmentFailure(f"{archive}: cannot be written ({cause.strerror})") from cause
    finally:
        part.unlink(missing_ok=True)
    return Packed({name: item.version for name, item in packages.items()}, archive.stat().st_size, unpacked)


def read_requirements(path: Path) -> tuple[Requested, ...]:
    """The requirements of a file and of the files that it includes with `-r`; pip's other options are left out, since
    nothing is downloaded. Raises ConfigError, with all lines that are not requirements."""
    result, problems = [], []
    for where, text in _lines(path):
        try:
            result.append(Requested(Requirement(text), where))
        except InvalidRequirement:
            allowed = "expected a package with its versions, e.g. polars>=1; install other things here, and name them"
            problems.append(ConfigProblem(where, _without_user(text), allowed))
    raise_if_any(problems)
    return tuple(result)


def closure(requested: Iterable[Requested]) -> dict[str, Distribution]:
    """The installed packages that meet the requirements, and all that these require, without `LEFT_OUT`, by name.

    Raises ConfigError, with all that are not installed, have another version, or are not there as files.
    """
    result: dict[str, Distribution] = {}
    problems: list[ConfigProblem] = []
    seen: set[tuple[str, str]] = set()
    queue = list(requested)
    for item in queue:
        requirement, name = item.requirement, canonicalize_name(item.requirement.name)
        if name in LEFT_OUT or not _applies(requirement, item.extra):
            continue
        try:
            package = result[name] if name in result else distribution(name)
        except PackageNotFoundError:
            problems.append(_missing(item, "is not installed"))
            continue
        if not requirement.specifier.contains(package.version, prereleases=True):
            problems.append(_missing(item, f"is installed in version {package.version}"))
            continue
        if package.files is None or (name != _OWN and _is_editable(package)):
            problems.append(_missing(item, "is not installed as a list of files (editable, or not by pip)"))
            continue
        result[name] = package
        for extra in sorted({"", *requirement.extras} - {extra for known, extra in seen if known == name}):
            seen.add((name, extra))
            needed = [Requirement(text) for text in package.requires or ()]
            queue += [Requested(inner, name, extra) for inner in needed if _applies(inner, extra)]
    raise_if_any(problems)
    return dict(sorted(result.items()))


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _missing(requested: Requested, what: str) -> ConfigProblem:
    message = f"{what} here: pip install it first, since the executors get what the driver has"
    return ConfigProblem(requested.where, _without_user(str(requested.requirement)), message)


def _without_user(text: str) -> str:
    """`text` without passwords. The user of a URL is hidden, too: the user of a repository is often a token."""
    return _URL_USER.sub(rf"\1{MASK}@", without_password(text))


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as cause:
        raise ConfigError.of("-r", str(path), f"cannot be read ({cause})") from cause
    for number, line in enumerate(text.splitlines(), 1):
        included = re.match(r"(?:-r|--requirement)[\s=]*(\S+)", line)
        # A line that goes on has hashes on the next ones.
        requirement = _AFTER.sub("", line.rstrip("\\ ")).strip()
        if included:
            yield from _lines(path.parent / included[1])
        elif requirement and (not requirement.startswith("-") or requirement.startswith("-e")):
            yield f"{path}:{number}", requirement


def _add_package(tar: tarfile.TarFile, package: Distribution) -> int:
    """Add the files of a package without its commands, which name this machine's Python; returns their size in
    bytes."""
    sources = dict(_files(package))
    for name, path in sources.items():
        tar.add(path, f"{_PACKAGES}/{name}", recursive=False, filter=_owned_by_root)
    return sum(path.stat().st_size for path in sources.values())


def _files(package: Distribution) -> Iterator[tuple[str, Path]]:
    """The files of a package: the name below site-packages, and the place here."""
    editable = _is_editable(package)
    for file in package.files or ():
        path = Path(str(package.locate_file(file)))
        # An editable package lists a link to its source instead of its modules. Only ours may be one.
        described = not editable or file.parts[0].endswith((".dist-info", ".egg-info"))
        if described and not {"..", "/"} & set(file.parts) and path.is_file():
            yield file.as_posix(), path
    if editable:
        root = Path(str(errors.__file__)).parent
        yield from ((str(path.relative_to(root.parent)), path) for path in sorted(root.rglob("*")) if path.is_file())


def _is_editable(package: Distribution) -> bool:
    with suppress(ValueError, AttributeError):
        return bool(json.loads(package.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable"))
    return False


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def _add_python(tar: tarfile.TarFile, interpreter: Path) -> None:
    for name, target in (("python", str(interpreter)), ("python3", "python"), (_PYTHON, "python")):
        link = tarfile.TarInfo(f"bin/{name}")
        link.type, link.linkname, link.mode = tarfile.SYMTYPE, target, 0o777
        tar.addfile(link)
    version = ".".join(map(str, sys.version_info[:3]))
    text = f"home = {interpreter.parent}\ninclude-system-site-packages = false\nversion = {version}\n".encode()
    settings = tarfile.TarInfo("pyvenv.cfg")
    settings.size, settings.mode = len(text), 0o644
    tar.addfile(settings, io.BytesIO(text))
