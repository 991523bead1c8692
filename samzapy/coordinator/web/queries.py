"""Serves the stores of a running job over HTTP. The driver passes each question to the containers that may have the
keys.

=====================================  =============================================================
GET /stores                            the stores, with the serdes of their keys and values
GET /stores/NAME/KEY                   the entry of a key, where keys are text
GET /stores/NAME?key=                  the entry of a key; JSON, unless keys are text
GET /stores/NAME?from=&to=             entries with from <= key < to; either bound may be left out
GET /stores/NAME?prefix=               entries with keys that start with it
POST /containers/ID/questions          Handed, packed: Asked; for containers (`samzapy.queries`)
=====================================  =============================================================

Further parameters: `partition` asks one task only. `limit` is the number of entries on a page, and `after` the `next`
of the previous page. `standby=true` lets a standby answer while there is no owner; the header `samzapy-standby-lag`
then has the number of changelog offsets that it is behind. `as_of` in an answer is the changelog offset of a task's
state, null without a changelog.

The driver passes questions on and does not redirect clients to containers: clients need one address, one token and one
certificate, executors need no open port, and only the attempt that holds the lease answers.

An error is `{"error": LINE}` with the status 400 (a bad request), 404 (no such store or key), 409 (the store or the key
cannot be shown) or 503 (with `retry-after`: the owner is moving).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, unquote_to_bytes

from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from samzapy.config.supervision import QueryConfig
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.page.inspector import Inspector, NoInspector
from samzapy.errors import SerdeError
from samzapy.queries.exchange import WAIT_S, Exchange
from samzapy.queries.owners import Owners, StoreOwners
from samzapy.queries.questions import (
    STANDBY_LAG,
    Answer,
    Asked,
    Entry,
    Place,
    Problem,
    Question,
    merged,
    pack,
    question_of_key,
    read_handed,
    unanswered,
)
from samzapy.queries.text import BadQuestion, StoreText
from samzapy.storage.kv.scanning import first_beyond
from samzapy.strict_json import encode

logger = logging.getLogger(__name__)

#: Seconds after which a client may ask again.
RETRY_S = 1
#: Containers in the first wave of a question for a page. Each answer may be a whole page, so one wave over all
#: containers of a large job would need the memory of a page for each.
_WAVE = 16
#: Most bytes of a container's request.
_BODY_LIMIT = 67_108_864

_UNSENDABLE = Answer(problem=Problem.REFUSED, message="the question cannot be sent to its container")

_OF_A_KEY = frozenset({"key", "partition", "standby"})
_OF_A_PAGE = frozenset({"from", "to", "prefix", "partition", "standby", "limit", "after"})
_QUESTIONS = re.compile(r"/containers/([^/]+)/questions")


class _Failure(Exception):
    """Raised to answer with an error."""

    def __init__(self, status: int, line: str, **more: Any) -> None:
        self.status, self.body = status, {"error": line, **more}


class Queries:
    """The service's part for store queries. This default refuses them: the job file has not turned them on."""

    @property
    def routes(self) -> Sequence[Route]:
        """The routes below `/stores`."""

        async def off(_: Request) -> Response:
            return _error(404, "queries are off: job.query.enabled=true lets a job answer them")

        return [Route(path, off, methods=["GET"]) for path in _PATHS]

    def over(self, calls: ASGIApp) -> ASGIApp:
        """The application for containers: the calls of this module, and all others by `calls`."""
        return calls


_PATHS = ("/stores", "/stores/{name}", "/stores/{name}/{key:path}")


@dataclass(frozen=True)
class Records:
    """The parts that answer questions about a job's records: `inspector` for its page, `queries` for its stores."""

    inspector: Inspector = field(default_factory=NoInspector)
    queries: Queries = field(default_factory=Queries)


class StoreQueries(Queries):
    """The stores of one job."""

    def __init__(
        self,
        coordinator: Coordinator,
        exchange: Exchange,
        owners: StoreOwners,
        texts: Mapping[str, StoreText],
        limits: QueryConfig,
    ) -> None:
        self._coordinator = coordinator
        self._exchange = exchange
        self._owners = owners
        self._texts = texts
        self._limits = limits

    @property
    def routes(self) -> Sequence[Route]:
        handlers = (self._index, self._store, self._path)
        return [Route(path, handler, methods=["GET"]) for path, handler in zip(_PATHS, handlers, strict=True)]

    def over(self, calls: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            matched = _QUESTIONS.fullmatch(scope["path"])
            if matched is None:
                await calls(scope, receive, send)
                return
            status, body = await self._hand_out(unquote(matched[1]), scope, receive)
            headers = [(b"content-type", b"application/msgpack"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

        return answer

    async def _index(self, _: Request) -> Response:
        stores = [
            {"name": name, "key_serde": text.key_serde, "msg_serde": text.value_serde, "text_keys": text.takes_paths}
            for name, text in sorted(self._texts.items())
        ]
        return _json(200, {"stores": stores, "partitions": sorted(self._owners.partitions)})

    async def _store(self, request: Request) -> Response:
        return await self._answered(request, self._of_parameters)

    async def _path(self, request: Request) -> Response:
        return await self._answered(request, self._of_path)

    async def _answered(
        self, request: Request, answer: Callable[[Request, StoreText], Coroutine[Any, Any, Response]]
    ) -> Response:
        name = request.path_params["name"]
        try:
            return await answer(request, self._text(name))
        except BadQuestion as bad:
            return _error(400, f"store '{name}': {bad}")
        except SerdeError as cause:
            return _error(409, str(cause))
        except _Failure as failure:
            return _json(failure.status, failure.body)

    async def _of_parameters(self, request: Request, text: StoreText) -> Response:
        if "key" not in request.query_params:
            return await self._page(text, _parameters(request, _OF_A_PAGE))
        given = _parameters(request, _OF_A_KEY)
        return await self._entry(text, text.key(given["key"], "key"), given)

    async def _of_path(self, request: Request, text: StoreText) -> Response:
        given = _parameters(request, _OF_A_KEY - {"key"})
        if not text.takes_paths:
            raise BadQuestion(f"keys are {text.key_serde}, not text: ask /stores/{text.name}?key=JSON")
        return await self._entry(text, text.key(_last_of_path(request), "key"), given)

    def _text(self, name: str) -> StoreText:
        if name not in self._texts:
            known = ", ".join(sorted(self._texts)) or "none"
            raise _Failure(404, f"store '{name}': no such store; the job's stores are {known}")
        return self._texts[name]

    async def _entry(self, text: StoreText, key: bytes, given: Mapping[str, str]) -> Response:
        owners = self._owners.of_key(text.name, key)
        if "partition" in given:
            owners = self._of_partition(given["partition"])
        question = question_of_key(text.name, key, len(self._owners.partitions))
        answer = await self._asked(text, question, owners, given)
        found = [entry for entry in answer.entries if text.is_alive(entry)]
        as_of = _as_of(answer)
        if not found:
            raise _Failure(404, f"store '{text.name}': no entry with this key", as_of=as_of)
        if len(found) > 1 or answer.more:
            where = ", ".join(str(entry.partition) for entry in found[:10])
            raise _Failure(409, f"store '{text.name}': several tasks have this key; add partition= ({where})")
        body = {"store": text.name, **text.shown(found[0]), "as_of": as_of.get(str(found[0].partition))}
        return _json(200, body, answer.lag)

    async def _page(self, text: StoreText, given: Mapping[str, str]) -> Response:
        lower, upper = _bounds(text, given)
        most = _number(given, "limit", self._limits.most, 1, self._limits.most)
        owners = self._of_partition(given["partition"]) if "partition" in given else self._owners.of_all()
        after = _place(given["after"]) if "after" in given else None
        question = Question(text.name, lower, upper, most, self._limits.most_bytes, None, after)
        answer = await self._asked(text, question, owners, given)
        body = {
            "store": text.name,
            # A thread leaves the event loop free for heartbeats.
            "entries": await run_in_threadpool(_shown, text, answer.entries),
            "as_of": _as_of(answer),
            "next": _cursor(answer.entries[-1].place) if answer.more and answer.entries else None,
        }
        return _json(200, body, answer.lag)

    def _of_partition(self, given: str) -> Owners:
        partitions = self._owners.partitions
        number = _number({"partition": given}, "partition", 0, 0, max(partitions))
        if number not in partitions:
            raise BadQuestion(f"partition: expected one of {', '.join(map(str, sorted(partitions)))}, got {number}")
        return self._owners.of_partition(number)

    async def _asked(self, text: StoreText, question: Question, owners: Owners, given: Mapping[str, str]) -> Answer:
        """Ask the owners, and merge their answers. Raises _Failure."""
        standby = {"true": True, "false": False}.get(given.get("standby", "false"))
        if standby is None:
            raise BadQuestion(f"standby: expected true or false, got {given['standby']!r}")
        answer = await self._of_owners(question, owners, standby=standby)
        if answer.problem is Problem.MOVING:
            raise _Failure(503, f"store '{text.name}': {answer.message}; ask again")
        if answer.problem is Problem.REFUSED:
            raise _Failure(409, answer.message)
        return answer

    async def _of_owners(self, question: Question, owners: Owners, *, standby: bool) -> Answer:
        """The merged answer of all owners. A question for a key goes to all owners at once. A question for a page goes
        out in waves, each twice as large as the previous one; the entries found so far bound the next wave."""
        most, most_bytes = question.most, question.most_bytes
        waiting, wave = list(owners), len(owners) if question.is_of_a_key else _WAVE
        found = Answer()
        while waiting and found.problem is None:
            bounded, asked, waiting = question.within(found), waiting[:wave], waiting[wave:]
            answers = await asyncio.gather(
                *(self._of_container(container, bounded, owners[container], standby=standby) for container in asked)
            )
            if question.is_of_a_key:
                found = merged(answers, most, most_bytes)
            else:
                found = await run_in_threadpool(merged, (found, *answers), most, most_bytes)
            wave *= 2
        return found

    async def _of_container(
        self, container: str, question: Question, partitions: tuple[int, ...] | None, *, standby: bool
    ) -> Answer:
        asked = replace(question, partitions=partitions)
        answer = await self._of_attempt(container, asked)
        for each in self._owners.standbys_of(container) if standby else ():
            if answer.problem is not Problem.MOVING:
                break
            answer = await self._of_attempt(each, asked)
        return answer

    async def _of_attempt(self, container: str, question: Question) -> Answer:
        timeout_s = self._limits.timeout_ms / 1000
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self._exchange.ask(container, question)), timeout_s)
        except asyncio.TimeoutError:
            return unanswered(container, timeout_s)

    async def _hand_out(self, container: str, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        """Take a container's answers, and wait for its next questions."""
        body = await _body(receive)
        if body is None:
            return 413, b""
        try:
            handed = read_handed(body)
        except ValueError as cause:
            return 400, f"{cause}\n".encode()
        if not self._coordinator.knows(container):
            return 404, b"unknown container\n"
        exchange, epoch = self._exchange, handed.epoch
        exchange.answered(container, epoch, handed.answers)
        if handed.busy:
            return 200, pack(Asked([], owned=self._coordinator.holder(container) == epoch))
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the service has ended meanwhile
                loop.call_soon_threadsafe(news.set)

        taken = exchange.take(container, epoch, wake)
        if taken == []:
            left = await _left_before(news, receive)
            if left:
                exchange.leave(container, epoch, wake)
                return 499, b""
            taken = exchange.take_waited(container, epoch, wake)
        return 200, pack(Asked([], owned=False)) if taken is None else self._packed(container, epoch, taken)

    def _packed(self, container: str, epoch: int, taken: list[tuple[int, Question]]) -> bytes:
        """The questions, packed. One that cannot be packed is refused, and does not cost the others."""
        try:
            return pack(Asked(taken))
        except Exception:
            logger.exception("A question for container %s cannot be packed", container)
        sound = [each for each in taken if _can_be_packed(each[1])]
        kept = {number for number, _ in sound}
        refused = [(number, _UNSENDABLE) for number, _ in taken if number not in kept]
        self._exchange.answered(container, epoch, refused)
        return pack(Asked(sound))


def _shown(text: StoreText, entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [text.shown(entry) for entry in entries if text.is_alive(entry)]


def _can_be_packed(question: Question) -> bool:
    try:
        pack(question)
    except Exception:  # noqa: BLE001  # msgspec raises several
        return False
    return True


async def _body(receive: Receive) -> bytes | None:
    """The body of a request; None if it is too large, or if the client has gone."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message["body"])
        size += len(message["body"])
        if size > _BODY_LIMIT:
            return None
        if not message["more_body"]:
            return b"".join(parts)


async def _left_before(news: asyncio.Event, receive: Receive) -> bool:
    """Wait for news, at most `WAIT_S` seconds; returns whether the container has disconnected."""
    leaving, coming = asyncio.ensure_future(receive()), asyncio.ensure_future(news.wait())
    try:
        done, _ = await asyncio.wait({leaving, coming}, timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
        return leaving in done
    finally:
        leaving.cancel()
        coming.cancel()


def _parameters(request: Request, allowed: frozenset[str]) -> dict[str, str]:
    """The parameters by name, decoded strictly, as the key in a path is. Raises BadQuestion for one that is unknown or
    given twice."""
    found: dict[str, str] = {}
    try:
        given = parse_qsl(request.scope["query_string"].decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as cause:
        raise BadQuestion(f"parameters: expected UTF-8, {cause}") from cause
    for name, value in given:
        if name not in allowed:
            raise BadQuestion(f"unknown parameter {name[:100]!r}; expected {', '.join(sorted(allowed))}")
        if name in found:
            raise BadQuestion(f"{name}: given twice")
        found[name] = value
    return found


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


def _bounds(text: StoreText, given: Mapping[str, str]) -> tuple[bytes | None, bytes | None]:
    if "prefix" in given:
        if "from" in given or "to" in given:
            raise BadQuestion("prefix: cannot be combined with from and to, choose one of them")
        start = text.prefix(given["prefix"])
        return start, first_beyond(start)
    lower, upper = (text.bound(given[part], part) if part in given else None for part in ("from", "to"))
    return lower, upper


def _number(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    value = given.get(name)
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


def _error(status: int, line: str) -> Response:
    return _json(status, {"error": line})


def _json(status: int, body: Mapping[str, Any], lag: int | None = None) -> Response:
    headers = {} if lag is None else {STANDBY_LAG: str(lag)}
    if status == 503:
        headers["retry-after"] = str(RETRY_S)
    return Response(encode(body) + b"\n", status, headers, media_type="application/json")
