"""Answers questions about the stores of a running job: the driver asks the containers that have them.

=====================================  =============================================================
GET /stores                            the stores, with the serdes of their keys and values
GET /stores/NAME?key=                  the entry of a key; text as it is, other keys as JSON
GET /stores/NAME?from=&to=             entries with from <= key < to; either bound may be left out
GET /stores/NAME?prefix=               entries with keys that start with it
=====================================  =============================================================

Further parameters: `partition` asks one task only. `limit` is the number of entries on a page, and `after` the `next`
of the previous page. `standby=true` lets a standby answer while there is no owner; the header `samzapy-standby-lag`
then has the number of changelog offsets that it is behind. `as_of` in an answer is the changelog offset of a task's
state, null without a changelog.

An error of `/stores` is `{"error": LINE}` with the status 400 (a bad request), 404 (no such store or key), 409 (the
store or the key cannot be shown) or 503 (with `retry-after`: the owner is moving).

Keys and values are bytes until here. Values are plain JSON, so that no reader needs the classes of the job.

    serde of the keys     a key in a request                           in an answer
    string                its text                                     a JSON string
    bytes                 a JSON string of hexadecimal digits          the same
    uuid                  a JSON string                                the same
    integer, long         a JSON number                                the same
    double                a JSON number                                the same
    json, msgpack         a JSON value, with a class if one is named   the plain value
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from samzapy import serializers
from samzapy.api.serde import Serde, hinted
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.coordinator.port import MOST_ASKED
from samzapy.coordinator.views import LONGEST, MOST_RECORDS, Inspector, Record
from samzapy.errors import ConfigError, EnvironmentFailure, RetriableError, SamzapyError, SerdeError
from samzapy.job.planner import JobModel
from samzapy.queries.committed import STANDBY_LAG, Answer, Entry, Place, Problem, Question, merged
from samzapy.storage.kv.expiring import Expiry, put_time, unstamped
from samzapy.storage.kv.scanning import first_beyond
from samzapy.storage.spec import store_specs

#: Bytes of the answers about one key.
_KEY_BYTES = 65_536
#: The largest page of a query, in entries and in bytes.
PAGE_ENTRIES, _PAGE_BYTES = 1_000, 1_048_576
#: Seconds after which a client may ask again.
RETRY_S = 1
_OF_A_KEY = frozenset({"key", "partition", "standby"})
_OF_A_PAGE = frozenset({"from", "to", "prefix", "partition", "standby", "limit", "after"})
_PATHS = ("/stores", "/stores/{name}")


class BadQuestion(SamzapyError):
    """Raised for a question that a store does not allow, with the HTTP status; the message names the allowed values.
    `more` joins the body of the answer."""

    def __init__(self, line: str, status: int = 400, **more: Any) -> None:
        self.status, self.more = status, more
        super().__init__(line)


class StoreText:
    """Converts the keys and values of one store. Any thread may call it."""

    def __init__(
        self,
        store: StoreConfig,
        key_serde: Serde,
        plain_key_serde: Serde,
        value_serde: Serde,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`key_serde` is the task's, for the class of the keys if they have one; the other two make plain values."""
        self.name = store.name
        self.key_serde = store.key_serde or "bytes"
        self.value_serde = store.msg_serde or "plain values of its view"
        self.has_text_keys = isinstance(key_serde, serializers.StringSerde)
        """Whether a key is its text."""
        self._serde = key_serde
        self._keys, self._values = plain_key_serde, value_serde
        self._from_text = _parser(key_serde)
        self._expiry = None if store.ttl_ms is None else Expiry(store.ttl_ms, clock)

    def key(self, text: str, part: str) -> bytes:
        """The bytes of a key of a request; `part` names the parameter. Raises BadQuestion."""
        try:
            encoded = self._serde.to_bytes(self._from_text(text))
        except Exception as cause:
            why = " ".join(str(cause).split()) or type(cause).__name__
            expected = "text" if self.has_text_keys else f"JSON for the serde {self.key_serde}"
            raise BadQuestion(f"{part}: expected {expected}, got {text[:100]!r} ({why[:300]})") from cause
        return bytes(encoded)

    def prefix(self, text: str) -> bytes:
        """The first bytes of the keys that start with `text`. Raises BadQuestion."""
        if not self._serde.keeps_prefixes:
            kind = "a key serde that keeps prefixes (string, bytes)"
            raise BadQuestion(f"prefix: needs {kind}, {self.key_serde} does not")
        return self.key(text, "prefix")

    def bound(self, text: str, part: str) -> bytes:
        """A bound of a range. Raises BadQuestion."""
        if not self._serde.keeps_order:
            kind = "a key serde that keeps order (string, bytes, uuid)"
            raise BadQuestion(f"{part}: a range needs {kind}, {self.key_serde} does not")
        return self.key(text, part)

    def is_alive(self, entry: Entry) -> bool:
        """Whether it has not expired by now."""
        return self._expiry is None or put_time(entry.value) > self._expiry.horizon()

    def shown(self, entry: Entry) -> dict[str, Any]:
        """The entry as an object of JSON. Raises SerdeError for one that cannot be read."""
        value = entry.value if self._expiry is None else unstamped(entry.value)
        return {
            "key": self._json(self._keys, entry.key, "a key"),
            "value": self._json(self._values, value, "the value of a key"),
            "partition": entry.partition,
        }

    def _json(self, serde: Serde, data: bytes, part: str) -> msgspec.Raw:
        try:
            return msgspec.Raw(serializers.as_json(serde.from_bytes(data)).encode())
        except Exception as cause:
            raise SerdeError(f"store '{self.name}': {part} cannot be read: {hinted(serde).misfit(cause)}") from cause


def _parser(serde: Serde) -> Callable[[str], Any]:
    """Parses a key's text to an object that the serde takes."""
    if isinstance(serde, serializers.StringSerde):
        return str
    if isinstance(serde, serializers.TypedSerde):
        typed = serializers.JsonSerde().of_type(serde.object_type)
        return lambda text: typed.from_bytes(text.encode())
    if isinstance(serde, serializers.BytesSerde):
        return lambda text: bytes.fromhex(msgspec.json.decode(text, type=str))
    if isinstance(serde, serializers.UUIDSerde):
        return lambda text: UUID(msgspec.json.decode(text, type=str))
    if isinstance(serde, serializers.DoubleSerde):
        return lambda text: msgspec.json.decode(text, type=float)
    return msgspec.json.decode


def store_texts(config: JobConfig) -> dict[str, StoreText]:
    """The texts of a job's stores, by name. Imports the classes of keys and values. Raises ConfigError."""
    typed, plain = serializers.task_serdes(config), serializers.serde_registry(config)
    return {
        name: StoreText(spec.config, spec.serdes(typed)[0], *spec.serdes(plain))
        for name, spec in store_specs(config).items()
    }


def no_queries() -> list[Route]:
    """The routes of a job whose file has not turned queries on."""

    def off(_: Request) -> Response:
        return _json(404, {"error": "queries are off: job.query.enabled=true lets a job answer them"})

    return [Route(path, off) for path in _PATHS]


class StoreQueries(Inspector):
    """The stores of one job, over HTTP and for its page. `streams` looks messages up."""

    about_stores = (
        "A store is asked in its containers. A key is text, or JSON for the serde of the keys if that is not string."
    )

    def __init__(
        self,
        ask: Callable[[str, Question], Answer],
        model: JobModel,
        texts: Mapping[str, StoreText],
        streams: Inspector,
    ) -> None:
        """`ask` passes a question to the container with that id."""
        self._ask = ask
        self._model = model
        #: The container of each task, by changelog partition.
        self._containers = {
            task.changelog_partition: container.id for container in model.containers for task in container.tasks
        }
        self._texts = texts
        self._messages = streams
        self._threads = ThreadPoolExecutor(MOST_ASKED, "samzapy-questions")
        self.stores, self.streams = sorted(texts), streams.streams

    @property
    def routes(self) -> list[Route]:
        """The routes below `/stores`."""
        return [Route(path, self._store if "{" in path else self._index) for path in _PATHS]

    @property
    def steps(self) -> Sequence[Mapping[str, object]]:
        return self._messages.steps

    def entries(self, store: str, key: str, how: str = "key") -> Sequence[Record]:
        text = self._texts.get(store)
        if text is None:
            raise ConfigError.of("store", store, f"the stores are {', '.join(self.stores)}")
        if how == "history":
            return self._messages.entries(store, key, how)
        if how == "prefix":
            start = text.prefix(key)
            question = Question(store, start, first_beyond(start), MOST_RECORDS, _PAGE_BYTES)
        else:
            question = self._question_of(text, text.key(key, "key"))
        answer = self._answer(question, {})
        return [_record(text, entry, answer.as_of[entry.partition]) for entry in answer.entries if text.is_alive(entry)]

    def messages(self, stream: str, partition: str, start: str, key: str | None = None) -> Sequence[Record]:
        return self._messages.messages(stream, partition, start, key)

    def log(self, container: str) -> str:
        return self._messages.log(container)

    def _index(self, _: Request) -> Response:
        stores = [
            {"name": name, "key_serde": text.key_serde, "msg_serde": text.value_serde, "text_keys": text.has_text_keys}
            for name, text in sorted(self._texts.items())
        ]
        return _json(200, {"stores": stores, "partitions": sorted(self._containers)})

    def _store(self, request: Request) -> Response:
        name = request.path_params["name"]
        try:
            return self._answered(request, name)
        except BadQuestion as bad:
            return _json(bad.status, {"error": f"store '{name}': {bad}", **bad.more})
        except RetriableError as moving:
            return _json(503, {"error": str(moving)})
        except (SerdeError, EnvironmentFailure) as cause:
            return _json(409, {"error": str(cause)})

    def _answered(self, request: Request, name: str) -> Response:
        text = self._texts.get(name)
        if text is None:
            known = ", ".join(self.stores) or "none"
            raise BadQuestion(f"no such store; the job's stores are {known}", 404)
        if "key" in request.query_params:
            parameters = _parameters(request, _OF_A_KEY)
            return self._entry(text, text.key(parameters["key"], "key"), parameters)
        return self._page(text, _parameters(request, _OF_A_PAGE))

    def _question_of(self, text: StoreText, key: bytes) -> Question:
        """The question about one key, which any task may have put into its store."""
        return Question(text.name, key, key + b"\x00", len(self._containers), _KEY_BYTES)

    def _entry(self, text: StoreText, key: bytes, parameters: Mapping[str, str]) -> Response:
        answer = self._answer(self._question_of(text, key), parameters)
        entries = [entry for entry in answer.entries if text.is_alive(entry)]
        as_of = _as_of(answer)
        if not entries:
            raise BadQuestion("no entry with this key", 404, as_of=as_of)
        if len(entries) > 1 or answer.more:
            where = ", ".join(str(entry.partition) for entry in entries[:10])
            raise BadQuestion(f"several tasks have this key; add partition= ({where})", 409)
        body = {"store": text.name, **text.shown(entries[0]), "as_of": as_of.get(str(entries[0].partition))}
        return _json(200, body, answer.lag)

    def _page(self, text: StoreText, parameters: Mapping[str, str]) -> Response:
        lower, upper = _bounds(text, parameters)
        most = _number(parameters, "limit", PAGE_ENTRIES, 1, PAGE_ENTRIES)
        after = _place(parameters["after"]) if "after" in parameters else None
        question = Question(text.name, lower, upper, most, _PAGE_BYTES, after=after)
        answer = self._answer(question, parameters)
        body = {
            "store": text.name,
            "entries": [text.shown(entry) for entry in answer.entries if text.is_alive(entry)],
            "as_of": _as_of(answer),
            "next": _cursor(answer.entries[-1].place) if answer.more and answer.entries else None,
        }
        return _json(200, body, answer.lag)

    def _asked(self, parameters: Mapping[str, str]) -> tuple[list[str], tuple[int, ...] | None]:
        """The containers to ask, and the partitions to ask them about; None for all."""
        if "partition" not in parameters:
            return [container.id for container in self._model.containers], None
        number = _number(parameters, "partition", 0, 0, max(self._containers))
        if number not in self._containers:
            known = ", ".join(map(str, sorted(self._containers)))
            raise BadQuestion(f"partition: expected one of {known}, got {number}")
        return [self._containers[number]], (number,)

    def _answer(self, question: Question, parameters: Mapping[str, str]) -> Answer:
        """The merged answer of the containers, `MOST_ASKED` at a time; the entries found so far bound what the next
        return. Raises RetriableError while an owner moves, EnvironmentFailure if the question is refused."""
        ids, partitions = self._asked(parameters)
        question = replace(question, partitions=partitions)
        standby = {"true": True, "false": False}.get(parameters.get("standby", "false"))
        if standby is None:
            raise BadQuestion(f"standby: expected true or false, got {parameters['standby']!r}")
        result = Answer()
        for start in range(0, len(ids), MOST_ASKED):
            ask = partial(self._of_container, question=question.within(result), standby=standby)
            answers = self._threads.map(ask, ids[start : start + MOST_ASKED])
            result = merged((result, *answers), question.most, question.most_bytes)
            if result.problem is Problem.MOVING:
                raise RetriableError(f"store '{question.store}': {result.message}; ask again")
            if result.problem is Problem.REFUSED:
                raise EnvironmentFailure(result.message)
        return result

    def _of_container(self, container: str, question: Question, *, standby: bool) -> Answer:
        answer = self._ask(container, question)
        for substitute in self._model.standbys_of(container) if standby else ():
            if answer.problem is not Problem.MOVING:
                break
            answer = self._ask(substitute, question)
        return answer


def _record(text: StoreText, entry: Entry, as_of: int) -> Record:
    shown = text.shown(entry)
    key, value = (bytes(shown[part]).decode() for part in ("key", "value"))
    since = f", as of changelog offset {as_of}" if as_of >= 0 else ""
    place = f"store {text.name}, partition {entry.partition}{since}"
    return Record(place, (msgspec.json.decode(key) if text.has_text_keys else key)[:LONGEST], value[:LONGEST])


def _parameters(request: Request, allowed: frozenset[str]) -> dict[str, str]:
    """The parameters by name: bytes that are not UTF-8 must not become another key. Raises BadQuestion for one that is
    unknown or given twice."""
    result: dict[str, str] = {}
    try:
        parameters = parse_qsl(request.scope["query_string"].decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as cause:
        raise BadQuestion(f"parameters: expected UTF-8, {cause}") from cause
    for name, value in parameters:
        if name not in allowed:
            raise BadQuestion(f"unknown parameter {name[:100]!r}; expected {', '.join(sorted(allowed))}")
        if name in result:
            raise BadQuestion(f"{name}: given twice")
        result[name] = value
    return result


def _bounds(text: StoreText, parameters: Mapping[str, str]) -> tuple[bytes | None, bytes | None]:
    if "prefix" in parameters:
        if "from" in parameters or "to" in parameters:
            raise BadQuestion("prefix: cannot be combined with from and to, choose one of them")
        start = text.prefix(parameters["prefix"])
        return start, first_beyond(start)
    lower, upper = (text.bound(parameters[part], part) if part in parameters else None for part in ("from", "to"))
    return lower, upper


def _number(parameters: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    value = parameters.get(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdecimal() and len(value) < 10 and least <= int(value) <= most):
        raise BadQuestion(f"{name}: expected a number from {least} to {most:,}, got {value[:100]!r}")
    return int(value)


def _cursor(place: Place) -> str:
    return base64.urlsafe_b64encode(f"{place[1]}:".encode() + place[0]).decode().rstrip("=")


def _place(cursor: str) -> Place:
    try:
        data = base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
        partition, colon, key = data.partition(b":")
        # More digits would not fit into a packed question.
        if colon and partition.isdigit() and len(partition) < 10:
            return key, int(partition)
    except (binascii.Error, ValueError):
        pass
    raise BadQuestion(f"after: expected the `next` of the previous page, got {cursor[:100]!r}")


def _as_of(answer: Answer) -> dict[str, int | None]:
    return {str(partition): None if offset < 0 else offset for partition, offset in answer.as_of.items()}


def _json(status: int, body: Mapping[str, Any], lag: int | None = None) -> Response:
    headers = {} if lag is None else {STANDBY_LAG: str(lag)}
    if status == 503:
        headers["retry-after"] = str(RETRY_S)
    return Response(msgspec.json.encode(body) + b"\n", status, headers, media_type="application/json")
