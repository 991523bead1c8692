"""Serdes by name, made when they are first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from samzapy.api.serde import Serde, SerdeFactory
from samzapy.config.job import JobConfig
from samzapy.config.reading.classes import SERDES
from samzapy.config.streams.serdes import CLASS, unknown_serde
from samzapy.errors import ConfigError, ConfigProblem, SerdeError
from samzapy.plugins import PluginError, load_class


class UnknownSerde(ConfigError, KeyError):
    """Raised when a name is not in the registry; a KeyError too, so that the registry is a proper mapping."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class SerdeRegistry(Mapping[str, Serde]):
    """Serdes by name. One instance a name, for the registry's life; not for several threads at once."""

    def __init__(self, classes: Mapping[str, str], settings: Mapping[str, Mapping[str, str]]) -> None:
        self._classes, self._settings = classes, settings
        self._made: dict[str, Serde] = {}

    def __getitem__(self, name: str) -> Serde:
        """Raises UnknownSerde for a name that is not registered, ConfigError if its class cannot be made."""
        serde = self._made.get(name)
        if serde is None:
            serde = self._made[name] = self._make(name)
        return serde

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def __contains__(self, name: object) -> bool:
        return name in self._classes

    def _make(self, name: str) -> Serde:
        path = self._classes.get(name)
        if path is None:
            raise UnknownSerde([ConfigProblem("serializers.registry", None, unknown_serde(name, dict(self._classes)))])
        key = CLASS.at(serde=name)
        try:
            made = load_class(path)()
            serde = made.serde(name, dict(self._settings.get(name, {}))) if isinstance(made, SerdeFactory) else made
        except PluginError as cause:
            raise ConfigError([ConfigProblem(key, None, str(cause))]) from cause
        except SerdeError as cause:
            raise ConfigError([ConfigProblem(key.removesuffix(".class"), None, str(cause))]) from cause
        except Exception as cause:
            raise ConfigError(
                [ConfigProblem(key, path, f"cannot be made ({type(cause).__name__}: {cause})")]
            ) from cause
        if not isinstance(serde, Serde):
            raise ConfigError([ConfigProblem(key, path, "must be a Serde, or a SerdeFactory that makes one")])
        return serde


def serde_registry(config: JobConfig | Mapping[str, str]) -> SerdeRegistry:
    """The serdes of a job, or of flat pairs (`serializers.registry.*`); the built-in ones are always there."""
    if isinstance(config, JobConfig):
        return SerdeRegistry(config.serdes, _settings(config.resolved))
    classes = dict(SERDES.short)
    for name, settings in _settings(config, with_class=True).items():
        path = settings.get("class", "")
        if path:
            classes[name] = SERDES.path(path) or path
    return SerdeRegistry(classes, _settings(config))


def _settings(flat: Mapping[str, str], *, with_class: bool = False) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    prefix = "serializers.registry."
    for key, value in flat.items():
        name, _, leaf = key.removeprefix(prefix).partition(".")
        if key.startswith(prefix) and leaf and (with_class or leaf != "class"):
            found.setdefault(name, {})[leaf] = value
    return found
