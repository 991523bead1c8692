"""Looks keys up for the page in the stores of the running job: the containers of the keys answer, as they do for
`/stores`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import wait

import msgspec
from msgspec.structs import replace

from samzapy.coordinator.page.inspector import LONGEST, Asked, Found, Inspector
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, RetriableError
from samzapy.queries.exchange import Exchange
from samzapy.queries.owners import StoreOwners
from samzapy.queries.questions import Entry, Problem, merged, question_of_key, unanswered
from samzapy.queries.text import StoreText


class LiveInspector(Inspector):
    """Asks containers about stores, also stores without a changelog, and another inspector about streams."""

    about_stores = (
        "A store is asked in its containers. A key is text, or JSON for the serde of the keys if that is not string."
    )

    def __init__(
        self,
        streams: Inspector,
        exchange: Exchange,
        owners: StoreOwners,
        texts: Mapping[str, StoreText],
        timeout_s: float,
    ) -> None:
        """`timeout_s`: the time limit for the answers of all containers together."""
        self._streams = streams
        self._exchange = exchange
        self._owners = owners
        self._texts = texts
        self._timeout_s = timeout_s

    @property
    def stores(self) -> Sequence[str]:
        return sorted(self._texts)

    @property
    def streams(self) -> Sequence[str]:
        return self._streams.streams

    def answer(self, asked: Asked) -> Sequence[Found]:
        """Raises RetriableError while a container that can have the key moves."""
        return self._entries(asked) if asked.store else self._streams.answer(asked)

    def _entries(self, asked: Asked) -> Sequence[Found]:
        text = self._texts.get(asked.store)
        if text is None:
            raise ConfigError([ConfigProblem("store", asked.store, f"the stores are {', '.join(self.stores)}")])
        key = text.key(asked.key, "key")
        question = question_of_key(text.name, key, len(self._owners.partitions))
        waiting = [
            (container, self._exchange.ask(container, replace(question, partitions=partitions)))
            for container, partitions in self._owners.of_key(text.name, key).items()
        ]
        wait([each for _, each in waiting], self._timeout_s)
        # `cancel` returns False for an answer that has just arrived.
        answers = [
            unanswered(container, self._timeout_s) if each.cancel() else each.result() for container, each in waiting
        ]
        answer = merged(answers, question.most, question.most_bytes)
        if answer.problem is Problem.MOVING:
            raise RetriableError(f"store '{text.name}': {answer.message}; ask again")
        if answer.problem is Problem.REFUSED:
            raise EnvironmentFailure(answer.message)
        return [_found(text, entry, answer.as_of[entry.partition]) for entry in answer.entries if text.is_alive(entry)]


def _found(text: StoreText, entry: Entry, as_of: int) -> Found:
    shown = text.shown(entry)
    key, value = (bytes(shown[part]).decode() for part in ("key", "value"))
    since = f", as of changelog offset {as_of}" if as_of >= 0 else ""
    place = f"store {text.name}, partition {entry.partition}{since}"
    return Found(place, (msgspec.json.decode(key) if text.takes_paths else key)[:LONGEST], value[:LONGEST])
