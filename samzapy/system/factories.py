"""Makes the factory object that `systems.NAME.samza.factory` names."""

from __future__ import annotations

from samzapy.api.system import SystemFactory, SystemSettings
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.plugins import PluginError, load_class


def has_transactions(settings: SystemSettings) -> bool:
    """Whether the system's producers take a transactional id. Raises as `load_factory`."""
    return load_factory(settings).transactional


def system_factory(settings: SystemSettings) -> SystemFactory:
    """An instance of the class that `settings.factory` names, which has checked the settings. Connects to nothing.

    Raises ConfigError as `load_factory` does, and for every problem that the factory's `check` finds in the settings.
    """
    factory = load_factory(settings)
    factory.check(settings)
    return factory


def load_factory(settings: SystemSettings) -> SystemFactory:
    """An instance of the class that `settings.factory` names.

    Raises ConfigError with the key `systems.NAME.samza.factory` if it is not a SystemFactory.
    """
    key = f"systems.{settings.name}.samza.factory"
    try:
        found = load_class(settings.factory)
    except PluginError as cause:
        raise ConfigError([ConfigProblem(key, settings.factory, str(cause))]) from cause
    if not issubclass(found, SystemFactory):
        allowed = "must name a subclass of samzapy.api.system.SystemFactory"
        raise ConfigError([ConfigProblem(key, settings.factory, allowed)])
    try:
        return found()
    except Exception as cause:
        reason = f"cannot be made without arguments ({type(cause).__name__}: {cause})"
        raise ConfigError([ConfigProblem(key, settings.factory, reason)]) from cause
