"""The sketch libraries, imported when a store first needs them, and what all sketch stores have in common."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, ClassVar

from samzapy.api.engine import EngineSettings, EntrySerdes, StoreViewFactory
from samzapy.api.serde import Serde
from samzapy.config.reading.keys import Key
from samzapy.errors import EnvironmentFailure
from samzapy.storage.views.properties import problems_of

_ADVICE = "install it: pip install 'samzapy[sketches]'"


@cache
def library(name: str) -> Any:
    """The module `name`. Raises EnvironmentFailure if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as cause:
        raise EnvironmentFailure(f"sketches need the package {name} ({cause}); {_ADVICE}") from cause


class SketchSerde(Serde):
    """A sketch's own bytes: what is read and written again without a change between is the same bytes."""

    @abstractmethod
    def to_bytes(self, value: Any) -> bytes:
        """The sketch's bytes."""

    @abstractmethod
    def from_bytes(self, data: bytes) -> Any:
        """The sketch. Raises SerdeError or ValueError for bytes that are none."""


class SketchesFactory(StoreViewFactory):
    """Keys are the job's (`key.serde`, string by default), values are sketches."""

    #: They are updated where they are; copying one for each update would cost more than the update.
    changes_in_place = True

    engine: ClassVar[str]
    package: ClassVar[str]
    keys: ClassVar[Sequence[Key[Any]]]
    serde: ClassVar[type[SketchSerde]]

    def entry_serdes(self, settings: EngineSettings) -> EntrySerdes:
        """See `StoreViewFactory.entry_serdes`."""
        return EntrySerdes(None, self.serde())

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str, str]]:
        """Problems of the kind's own keys, and a package that is missing."""
        if find_spec(self.package) is None:
            yield "factory", self.engine, f"needs the package {self.package}, which is not installed; {_ADVICE}"
        yield from problems_of(settings, self.keys)
