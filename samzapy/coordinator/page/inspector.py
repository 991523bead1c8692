"""Answers questions about committed data: one key of a store, one message of a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

#: The most characters of a key or a value that are shown.
LONGEST = 65_536


@dataclass(frozen=True)
class Found:
    """A record as text: its place (`store counts, partition 3` or `kafka.in[3]@17`), its key, and its value as JSON."""

    place: str
    key: str
    value: str


@dataclass(frozen=True)
class Asked:
    """The question of a reader, as typed into the form; fields that are not used are empty."""

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
    """Looks records up. Any thread may call it. A question that it cannot answer raises SamzapyError, with one line.
    `about_stores` says to readers where the entries of stores come from."""

    about_stores = "A store is read from its changelog, which may take some seconds."

    @property
    @abstractmethod
    def stores(self) -> Sequence[str]:
        """The names of the stores that can be queried."""

    @property
    @abstractmethod
    def streams(self) -> Sequence[str]:
        """The inputs, as `system.stream`."""

    @abstractmethod
    def answer(self, asked: Asked) -> Sequence[Found]:
        """The records that the question is about; may be empty."""


class NoInspector(Inspector):
    """An inspector without stores and streams, so the page has no form."""

    @property
    def stores(self) -> Sequence[str]:
        return ()

    @property
    def streams(self) -> Sequence[str]:
        return ()

    def answer(self, asked: Asked) -> Sequence[Found]:
        return ()
