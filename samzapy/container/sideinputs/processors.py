"""The user's SideInputsProcessor classes."""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.api.task import SideInputsProcessor
from samzapy.config.job import JobConfig
from samzapy.config.stores.sources import RESTORE_PROCESSOR, SIDE_PROCESSOR
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.plugins import PluginError, load_class


def load_processors(config: JobConfig) -> Mapping[str, type[SideInputsProcessor]]:
    """The class of every store that is filled from streams. Raises ConfigError with every one that cannot be made."""
    found: dict[str, type[SideInputsProcessor]] = {}
    problems = []
    for store in config.stores.values():
        if store.source is None:
            continue
        key = (RESTORE_PROCESSOR if store.source.replayed else SIDE_PROCESSOR).at(store=store.name)
        try:
            loaded = load_class(store.source.processor)
        except PluginError as cause:
            problems.append(ConfigProblem(key, store.source.processor, str(cause)))
            continue
        if not issubclass(loaded, SideInputsProcessor) or getattr(loaded, "__abstractmethods__", False):
            problems.append(
                ConfigProblem(
                    key, store.source.processor, "must be a SideInputsProcessor that defines process(message, store)"
                )
            )
            continue
        found[store.name] = loaded
    if problems:
        raise ConfigError(problems)
    return found
