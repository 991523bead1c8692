"""Passes readers' requests on to the HTTP ports of containers, and answers questions about the stores of a running job.

=====================================  =============================================================
GET /containers/ID/metrics             the series of one container, as Prometheus text
GET /containers/ID/snapshot            its metrics as JSON, by group and name
GET /stores                            the stores, with the serdes of their keys and values
GET /stores/NAME/KEY                   the entry of a key, where keys are text
GET /stores/NAME?key=                  the entry of a key; JSON, unless keys are text
GET /stores/NAME?from=&to=             entries with from <= key < to; either bound may be left out
GET /stores/NAME?prefix=               entries with keys that start with it
=====================================  =============================================================

Further parameters: `partition` asks one task only. `limit` is the number of entries on a page, and `after` the `next`
of the previous page. `standby=true` lets a standby answer while there is no owner; the header `samzapy-standby-lag`
then has the number of changelog offsets that it is behind. `as_of` in an answer is the changelog offset of a task's
state, null without a changelog.

An error of `/stores` is `{"error": LINE}` with the status 400 (a bad request), 404 (no such store or key), 409 (the
store or the key cannot be shown) or 503 (with `retry-after`: the owner is moving).
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
import urllib3
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from samzapy.coordinator.client import pinned_to
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.web.views import LONGEST, Inspector, Record
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, RetriableError, SerdeError
from samzapy.job.lease import HttpAddress
from samzapy.queries.questions import (
    STANDBY_LAG,
    Answer,
    Entry,
    Owners,
    Place,
    Problem,
    Question,
    StoreOwners,
    merged,
    pack,
    question_of_key,
    unpack,
)
from samzapy.queries.text import BadQuestion, StoreText
from samzapy.storage.kv.scanning import first_beyond

logger = logging.getLogger(__name__)

#: Seconds to wait for a connection to a container, and for the answer to a request that is passed on.
CONNECT_S, ANSWER_S = 2.0, 10.0
#: Seconds that a container may take to answer a question.
QUESTION_S = 5.0
#: The largest page of a query, in entries and in bytes.
PAGE_ENTRIES, _PAGE_BYTES = 1_000, 1_048_576
#: Seconds after which a client may ask again.
RETRY_S = 1
#: Containers that are asked at the same time. Each may answer with a whole page.
_ASKED = 16
_OF_A_KEY = frozenset({"key", "partition", "standby"})
_OF_A_PAGE = frozenset({"from", "to", "prefix", "partition", "standby", "limit", "after"})
_PATHS = ("/stores", "/stores/{name}", "/stores/{name}/{key:path}")


class ContainerPorts:
    """The HTTP ports of a job's containers, as the driver calls them. Any thread may call it.

    A container is at the address that its newest attempt has reported, with the certificate that it has reported. An
    attempt that was superseded is never asked.
    """

    def __init__(self, coordinator: Coordinator, token: str) -> None:
        self._coordinator = coordinator
        self._headers = {"authorization": f"Bearer {token}"}
        self._manager = urllib3.PoolManager(num_pools=1_000, maxsize=_ASKED)
        #: The connections to each container, with the port that they are for.
        self._pools: dict[str, tuple[HttpAddress, urllib3.HTTPConnectionPool]] = {}

    @property
    def routes(self) -> list[Route]:
        """The routes that are passed on."""
        return [Route(f"/containers/{{id}}/{name}", self._pass_on) for name in ("metrics", "snapshot")]

    def ask(self, container_id: str, question: Question) -> Answer:
        """The container's answer; `MOVING` without one."""
        port = self._coordinator.ports.get(container_id)
        if port is None:
            return Answer(problem=Problem.MOVING, message="its container is starting or moving")
        try:
            status, body, _ = self._request(container_id, port, "POST", "/questions", QUESTION_S, pack(question))
            if status == 200:
                return unpack(Answer, body)
            reason = f"answers {status}"
        except urllib3.exceptions.ReadTimeoutError:
            reason = f"has not answered for {QUESTION_S:g} s"
        except (urllib3.exceptions.HTTPError, ValueError) as cause:
            logger.debug("Container %s does not answer: %s", container_id, cause)
            reason = f"does not answer ({type(cause).__name__})"
        return Answer(problem=Problem.MOVING, message=f"container {container_id} {reason}")

    def _pass_on(self, request: Request) -> Response:
        container_id: str = request.path_params["id"]
        if not self._coordinator.knows(container_id):
            return PlainTextResponse("unknown container\n", 404)
        port = self._coordinator.ports.get(container_id)
        if port is None:
            return PlainTextResponse(f"container {container_id} is starting or moving, or has no port\n", 503)
        name = request.url.path.rpartition("/")[2]
        try:
            status, body, kind = self._request(container_id, port, "GET", f"/{name}", ANSWER_S)
        except urllib3.exceptions.HTTPError as cause:
            return PlainTextResponse(f"container {container_id} does not answer ({type(cause).__name__})\n", 503)
        return Response(body, status, media_type=kind)

    def _request(
        self, container_id: str, port: HttpAddress, method: str, path: str, answer_s: float, body: bytes | None = None
    ) -> tuple[int, bytes, str | None]:
        known = self._pools.get(container_id)
        if known is None or known[0] != port:
            pool = self._manager.connection_from_url(port.url, pinned_to(port.fingerprint))
            known = self._pools[container_id] = port, pool
        timeout = urllib3.Timeout(connect=min(CONNECT_S, answer_s), read=answer_s)
        answer = known[1].urlopen(method, path, body, self._headers, retries=False, timeout=timeout)
        return answer.status, answer.data, answer.headers.get("content-type")


def no_queries() -> list[Route]:
    """The routes of a job whose file has not turned queries on."""

    def off(_: Request) -> Response:
        return _json(404, {"error": "queries are off: job.query.enabled=true lets a job answer them"})

    return [Route(path, off) for path in _PATHS]


class _Failure(Exception):
    """Raised to answer with an error."""

    def __init__(self, status: int, line: str, **more: Any) -> None:
        self.status, self.body = status, {"error": line, **more}


class StoreQueries(Inspector):
    """The stores of one job, over HTTP and for its page. `streams` looks messages up."""

    about_stores = (
        "A store is asked in its containers. A key is text, or JSON for the serde of the keys if that is not string."
    )

    def __init__(
        self,
        ask: Callable[[str, Question], Answer],
        owners: StoreOwners,
        texts: Mapping[str, StoreText],
        streams: Inspector,
    ) -> None:
        """`ask` passes a question to the container with that id."""
        self._ask = ask
        self._owners = owners
        self._texts = texts
        self._messages = streams
        self._threads = ThreadPoolExecutor(_ASKED, "samzapy-questions")
        self.stores, self.streams = sorted(texts), streams.streams

    @property
    def routes(self) -> list[Route]:
        """The routes below `/stores`."""
        return [Route(path, self._store if "{" in path else self._index) for path in _PATHS]

    def entries(self, store: str, key: str) -> Sequence[Record]:
        text = self._texts.get(store)
        if text is None:
            raise ConfigError([ConfigProblem("store", store, f"the stores are {', '.join(self.stores)}")])
        data = text.key(key, "key")
        answer = self._answer(self._question_of(text, data), self._owners.of_key(store, data), {})
        return [_record(text, entry, answer.as_of[entry.partition]) for entry in answer.entries if text.is_alive(entry)]

    def message(self, stream: str, partition: str, offset: str) -> Sequence[Record]:
        return self._messages.message(stream, partition, offset)

    def _index(self, _: Request) -> Response:
        stores = [
            {"name": name, "key_serde": text.key_serde, "msg_serde": text.value_serde, "text_keys": text.takes_paths}
            for name, text in sorted(self._texts.items())
        ]
        return _json(200, {"stores": stores, "partitions": sorted(self._owners.partitions)})

    def _store(self, request: Request) -> Response:
        name = request.path_params["name"]
        try:
            return self._answered(request, name)
        except BadQuestion as bad:
            return _json(400, {"error": f"store '{name}': {bad}"})
        except RetriableError as moving:
            return _json(503, {"error": str(moving)})
        except (SerdeError, EnvironmentFailure) as cause:
            return _json(409, {"error": str(cause)})
        except _Failure as failure:
            return _json(failure.status, failure.body)

    def _answered(self, request: Request, name: str) -> Response:
        text = self._texts.get(name)
        if text is None:
            known = ", ".join(self.stores) or "none"
            raise _Failure(404, f"store '{name}': no such store; the job's stores are {known}")
        if "key" in request.path_params:
            parameters = _parameters(request, _OF_A_KEY - {"key"})
            if not text.takes_paths:
                raise BadQuestion(f"keys are {text.key_serde}, not text: ask /stores/{name}?key=JSON")
            return self._entry(text, text.key(_last_of_path(request), "key"), parameters)
        if "key" in request.query_params:
            parameters = _parameters(request, _OF_A_KEY)
            return self._entry(text, text.key(parameters["key"], "key"), parameters)
        return self._page(text, _parameters(request, _OF_A_PAGE))

    def _question_of(self, text: StoreText, key: bytes) -> Question:
        return question_of_key(text.name, key, len(self._owners.partitions))

    def _entry(self, text: StoreText, key: bytes, parameters: Mapping[str, str]) -> Response:
        owners = self._of_partition(parameters) or self._owners.of_key(text.name, key)
        answer = self._answer(self._question_of(text, key), owners, parameters)
        entries = [entry for entry in answer.entries if text.is_alive(entry)]
        as_of = _as_of(answer)
        if not entries:
            raise _Failure(404, f"store '{text.name}': no entry with this key", as_of=as_of)
        if len(entries) > 1 or answer.more:
            where = ", ".join(str(entry.partition) for entry in entries[:10])
            raise _Failure(409, f"store '{text.name}': several tasks have this key; add partition= ({where})")
        body = {"store": text.name, **text.shown(entries[0]), "as_of": as_of.get(str(entries[0].partition))}
        return _json(200, body, answer.lag)

    def _page(self, text: StoreText, parameters: Mapping[str, str]) -> Response:
        lower, upper = _bounds(text, parameters)
        most = _number(parameters, "limit", PAGE_ENTRIES, 1, PAGE_ENTRIES)
        owners = self._of_partition(parameters) or self._owners.everyone
        after = _place(parameters["after"]) if "after" in parameters else None
        question = Question(text.name, lower, upper, most, _PAGE_BYTES, after=after)
        answer = self._answer(question, owners, parameters)
        body = {
            "store": text.name,
            "entries": [text.shown(entry) for entry in answer.entries if text.is_alive(entry)],
            "as_of": _as_of(answer),
            "next": _cursor(answer.entries[-1].place) if answer.more and answer.entries else None,
        }
        return _json(200, body, answer.lag)

    def _of_partition(self, parameters: Mapping[str, str]) -> Owners | None:
        """The owner of the partition that is asked for; None without one."""
        if "partition" not in parameters:
            return None
        partitions = self._owners.partitions
        number = _number(parameters, "partition", 0, 0, max(partitions))
        if number not in partitions:
            raise BadQuestion(f"partition: expected one of {', '.join(map(str, sorted(partitions)))}, got {number}")
        return self._owners.of_partition(number)

    def _answer(self, question: Question, owners: Owners, parameters: Mapping[str, str]) -> Answer:
        """The merged answer of all owners, `_ASKED` at a time; the entries found so far bound what the next return.
        Raises RetriableError while an owner moves, EnvironmentFailure if the question is refused."""
        standby = {"true": True, "false": False}.get(parameters.get("standby", "false"))
        if standby is None:
            raise BadQuestion(f"standby: expected true or false, got {parameters['standby']!r}")
        result, ids = Answer(), list(owners)
        for start in range(0, len(ids), _ASKED):
            bounded = question.within(result)

            def answer(container: str, bounded: Question = bounded) -> Answer:
                return self._of_container(container, replace(bounded, partitions=owners[container]), standby=standby)

            answers = self._threads.map(answer, ids[start : start + _ASKED])
            result = merged((result, *answers), question.most, question.most_bytes)
            if result.problem is Problem.MOVING:
                raise RetriableError(f"store '{question.store}': {result.message}; ask again")
            if result.problem is Problem.REFUSED:
                raise EnvironmentFailure(result.message)
        return result

    def _of_container(self, container: str, question: Question, *, standby: bool) -> Answer:
        answer = self._ask(container, question)
        for substitute in self._owners.model.standbys_of(container) if standby else ():
            if answer.problem is not Problem.MOVING:
                break
            answer = self._ask(substitute, question)
        return answer


def _record(text: StoreText, entry: Entry, as_of: int) -> Record:
    shown = text.shown(entry)
    key, value = (bytes(shown[part]).decode() for part in ("key", "value"))
    since = f", as of changelog offset {as_of}" if as_of >= 0 else ""
    place = f"store {text.name}, partition {entry.partition}{since}"
    return Record(place, (msgspec.json.decode(key) if text.takes_paths else key)[:LONGEST], value[:LONGEST])


def _parameters(request: Request, allowed: frozenset[str]) -> dict[str, str]:
    """The parameters by name, decoded strictly, as the key in a path is. Raises BadQuestion for one that is unknown or
    given twice."""
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


def _last_of_path(request: Request) -> str:
    """The key in a path, decoded strictly: bytes that are not UTF-8 must not become another key."""
    raw: bytes = request.scope["raw_path"].partition(b"?")[0]
    parts = raw.split(b"/", 3)
    if len(parts) < 4:
        raise BadQuestion("key: expected /stores/NAME/KEY, with a plain slash after the name")
    try:
        return unquote_to_bytes(parts[3]).decode()
    except UnicodeDecodeError as cause:
        raise BadQuestion(f"key: expected UTF-8, {cause}") from cause


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
