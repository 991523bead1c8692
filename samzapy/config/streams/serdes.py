"""`serializers.registry.*`, and the stable names of serdes in records that outlive the job file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from samzapy.api.serde import Serde
from samzapy.config.reading.classes import SCHEMA_SERDES, SERDES
from samzapy.config.reading.keys import family, key
from samzapy.config.reading.reader import Reader, did_you_mean
from samzapy.config.streams.schemas import parse_schemas


@dataclass(frozen=True)
class SerdeKeys:
    """The keys of a serde."""

    path: str | None = key("serializers.registry.{serde}.class", SERDES.kind, None, shown="the built-ins need none")
    """The serde with this name: a Serde or SerdeFactory class, the name of a built-in serde, or Samza's Java class
    name."""
    settings: Mapping[str, str] = family("serializers.registry.{serde}.*")
    """Settings for the serde's factory, which gets them without the prefix. For avro, json-schema and protobuf also the
    connection of Confluent's registry client: basic.auth.user.info, bearer.auth.token, logical.cluster,
    ssl.ca.location, ssl.certificate.location, ssl.key.location, ssl.key.password."""


_PREFIX, _SUFFIX = "serializers.registry.", ".class"


def parse_serdes(reader: Reader) -> dict[str, str]:
    """Class paths by serde name, the built-in ones included; nothing is imported."""
    serdes = dict(SERDES.short)
    for place in reader.values:
        name = place.removeprefix(_PREFIX).removesuffix(_SUFFIX)
        if name and place == f"{_PREFIX}{name}{_SUFFIX}":
            serdes[name] = reader.value(SerdeKeys, "path", serde=name) or serdes.get(name, "")
    for name, path in serdes.items():
        # A built-in one without settings is most likely not in use; if it is, its factory asks for them.
        if path in SCHEMA_SERDES and reader.below(f"{_PREFIX}{name}."):
            parse_schemas(reader, name, path)
    return serdes


def check_serde(reader: Reader, serdes: dict[str, str], key: str, name: str | None) -> None:
    """Note a problem if `key` names a serde that is not registered."""
    if name and name not in serdes:
        reader.problem(key, unknown_serde(name, serdes))


#: The serdes that decode to a class, by their identities.
_DOCUMENTS = ("json", "msgpack", *SCHEMA_SERDES.values())


def takes_types(serde: str, classes: Mapping[str, str]) -> bool:
    """Whether the serde of that name decodes to a class, if it is given one."""
    return serde_identity(serde, classes) in _DOCUMENTS


def check_type(
    reader: Reader, serdes: dict[str, str], key: str, path: str | None, serde_key: str, name: str | None
) -> None:
    """Note a problem if `key` names a class, and the serde of `serde_key` does not decode to classes."""
    if path is None or takes_types(name or "", serdes):
        return
    given = "it has none" if name is None else f"it is {name}"
    reader.problem(key, f"needs {serde_key}={', '.join(_DOCUMENTS[:-1])} or {_DOCUMENTS[-1]}, {given}", path)


def typed_name(serde: str, path: str | None) -> str:
    """The name of `serde` for objects of the class `path` among a job's serdes; `serde` itself for None."""
    return serde if path is None else f"{serde}<{path}>"


def split_typed_name(name: str) -> tuple[str, str]:
    """The serde and the class path of a `typed_name`; the path is empty for any other name."""
    serde, _, path = name.partition("<")
    return (serde, path[:-1]) if path.endswith(">") else (name, "")


def unknown_serde(name: str, known: dict[str, str]) -> str:
    """The sentence about a serde that is not registered."""
    return f"serde {name!r} unknown; known: {', '.join(known)}{did_you_mean(name, known)}"


_OWN = "samzapy."
#: Short names by class name; the first one where a class has several.
_SHORT = {path.rpartition(":")[2]: short for short, path in reversed(list(SERDES.short.items()))}


def serde_identity(serde: Serde | str, classes: Mapping[str, str]) -> str:
    """The stable name of a serde: equal for every name and spelling of the same class.

    1. A built-in serde has its short name (`long`), another class of samzapy its class name, any other class its path
       as the job file has it.
    2. `serde` is an object, or a name in `classes`, the class paths by serde name.
    3. The settings of a serde are not part of it. They may be secret, or name a place that moves.
    """
    path = (
        classes.get(serde, serde) if isinstance(serde, str) else f"{type(serde).__module__}:{type(serde).__qualname__}"
    )
    if ":" not in path:
        path = ":".join(path.rsplit(".", 1))
    if not path.startswith(_OWN):
        return path
    name = path.rpartition(":")[2]
    return _SHORT.get(name) or _SHORT.get(f"{name}Factory") or name


def key_identity(serde: Serde | str, classes: Mapping[str, str], flat: Mapping[str, str]) -> str:
    """Like `serde_identity`, for the serde of a store's keys.

    Equal keys must have equal bytes, so JSON with sorted keys counts as another serde. `flat` are the job's keys in
    clear.
    """
    identity = serde_identity(serde, classes)
    sort_keys = f"{_PREFIX}{serde}.sort.keys"
    if identity == "json" and isinstance(serde, str) and flat.get(sort_keys, "").lower() == "true":
        return "json (sort.keys)"
    return identity
