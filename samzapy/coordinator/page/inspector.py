"""Answers questions of the page about committed data: one key of a store, one message of a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """A record as text: where it is (`store counts, partition 3`, `kafka.in[3]@17`), its key, its value as JSON."""

    place: str
    key: str
    value: str


@dataclass(frozen=True)
class Asked:
    """The question of a reader, as it stands in the form; empty strings for what is not asked."""

    store: str = ""
    key: str = ""
    stream: str = ""
    partition: str = ""
    offset: str = ""

    @property
    def is_question(self) -> bool:
        """Whether anything is asked."""
        return bool(self.store or self.stream)


class Inspector(ABC):
    """Looks records up. Called in threads; raises SamzapyError with one line for what cannot be answered."""

    @property
    @abstractmethod
    def stores(self) -> Sequence[str]:
        """The names of the stores that can be looked into."""

    @property
    @abstractmethod
    def streams(self) -> Sequence[str]:
        """The inputs, as `system.stream`."""

    @abstractmethod
    def answer(self, asked: Asked) -> Sequence[Found]:
        """The records that were asked for; none if there is none."""


class NoInspector(Inspector):
    """Knows no store and no stream: the page has no form then."""

    @property
    def stores(self) -> Sequence[str]:
        return ()

    @property
    def streams(self) -> Sequence[str]:
        return ()

    def answer(self, asked: Asked) -> Sequence[Found]:
        return ()
