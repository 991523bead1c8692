"""Asks a running job: its stores, `samzapy.query(job).store("counts").get(key)`, and its status.

The answers come from the job's driver (`samzapy.coordinator.queries`) and are committed entries. A question is
asked again until its deadline in two cases:

1. The owner of a key is moving: the driver answers 503.
2. The driver does not answer. Its address is read again each time, because a restarted driver has another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import orjson
import urllib3

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.container.supervision.logs import PageAddress, log_folder
from samzapy.coordinator.client import CoordinatorClient, pinned_to
from samzapy.errors import EnvironmentFailure, RetriableError, StoreError, TaskMigrated
from samzapy.queries.committed import STANDBY_LAG
from samzapy.serializers import from_json
from samzapy.storage.inspection import store_of

#: Seconds to wait for a connection and for an answer at the most, and for each of them at the deadline.
_CONNECT_S, _ANSWER_S, _LEAST_S = 2.0, 65.0, 0.1
#: Seconds between two attempts without an answer.
_AGAIN_S = 0.5
#: Connections to keep to one container: a program may ask from that many threads.
_THREADS = 8


@dataclass(frozen=True)
class StoreEntry:
    """A committed entry. `partition`: the changelog partition of its task. `as_of`: the changelog offset up to which
    the state is complete, None without a changelog. `standby_lag`: if a standby has answered, the number of changelog
    offsets that it is behind; None for an owner."""

    key: Any
    value: Any
    partition: int
    as_of: int | None
    standby_lag: int | None = None


@final
class JobQueries:
    """The stores of one running job. Safe to use from several threads."""

    def __init__(
        self,
        config: JobConfig,
        address: str | None = None,
        *,
        deadline_s: float = 30.0,
        clock: Clock = SYSTEM_CLOCK,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        """`address`: as printed by the run, with its token and, after `#`, the fingerprint of its certificate; None for
        a run on this machine. `deadline_s`: seconds until a question without an answer fails."""
        self._config = config
        self._address = address
        self._deadline_s = deadline_s
        self._clock = clock
        self._wait = wait
        self._manager = urllib3.PoolManager(maxsize=_THREADS)

    def store(self, name: str, *, standby: bool = False) -> StoreQueries:
        """One store; with `standby` a standby may answer while there is no owner. Raises ConfigError for an unknown
        one."""
        store_of(self._config.stores, name)
        return StoreQueries(self, name, standby=standby)

    def close(self) -> None:
        self._manager.clear()

    def __enter__(self) -> JobQueries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, path: str, parameters: Mapping[str, str]) -> tuple[Any, Mapping[str, str]] | None:
        """One answer and its headers; None if there is no such entry.

        Raises StoreError if the question is refused, EnvironmentFailure without a run or with a wrong token,
        RetriableError when the deadline has passed.
        """
        until = self._clock.monotonic() + self._deadline_s
        while True:
            try:
                return self._asked(path, parameters, until - self._clock.monotonic())
            except _Again as again:
                if self._clock.monotonic() + again.pause_s > until:
                    line = f"job '{self._config.name}': no answer for {self._deadline_s:g} s: {again}"
                    raise RetriableError(line) from again
                self._wait(again.pause_s)

    def _asked(self, path: str, parameters: Mapping[str, str], left_s: float) -> tuple[Any, Mapping[str, str]] | None:
        address = self._address or _page_address(self._config)
        if address is None:
            raise _Again("no run on this machine has an address; give the address of a run elsewhere", _AGAIN_S)
        url, token, fingerprint = _parts(address)
        asked, headers = f"{path}?{urlencode(parameters, quote_via=quote)}", {"authorization": f"Bearer {token}"}
        most_s = max(left_s, _LEAST_S)
        timeout = urllib3.Timeout(connect=min(_CONNECT_S, most_s), read=min(_ANSWER_S, most_s))
        try:
            pool = self._manager.connection_from_url(url, pinned_to(fingerprint))
            answer = pool.request("GET", asked, headers=headers, timeout=timeout, retries=False)
        except urllib3.exceptions.HTTPError as cause:
            raise _Again(f"{url} does not answer ({type(cause).__name__})", _AGAIN_S) from cause
        body = _body(answer.data)
        if answer.status == 200:
            return body, answer.headers
        line = body.get("error") or answer.data[:200].decode("utf-8", "replace").strip()
        if answer.status == 404 and "as_of" in body:
            return None
        if answer.status == 503:
            raise _Again(line, float(answer.headers.get("retry-after", _AGAIN_S)))
        if answer.status == 403:
            raise EnvironmentFailure(f"job '{self._config.name}': {url} refuses the token: {line}")
        raise StoreError(line)


def _page_address(config: JobConfig) -> str | None:
    """The address of the run on this machine."""
    return PageAddress(log_folder(config.supervision.log, config.job_name)).read()


def _parts(address: str) -> tuple[str, str, str | None]:
    """URL, token and fingerprint of an address."""
    parts = urlsplit(address)
    token = parse_qs(parts.query).get("token", [""])[0]
    return f"{parts.scheme}://{parts.netloc}", token, parts.fragment or None


class _Again(Exception):
    """There is no answer yet; `pause_s`: seconds until the next attempt."""

    def __init__(self, line: str, pause_s: float) -> None:
        self.pause_s = pause_s
        super().__init__(line)


def _body(data: bytes) -> Mapping[str, Any]:
    try:
        result = from_json(data)
    except (ValueError, RecursionError):
        return {}
    return result if isinstance(result, dict) else {}


class StoreQueries:
    """The committed entries of one store, as plain JSON values. Every call asks again.

    A key is a `str` for a store with string keys. For any other serde it is the JSON form of a key: a number, the text
    of a UUID, bytes as hexadecimal digits or as `bytes`, a list or a dict.
    """

    def __init__(self, job: JobQueries, name: str, *, standby: bool) -> None:
        self._job = job
        self._path = f"/stores/{quote(name, safe='')}"
        self._index = name
        self._standby = {"standby": "true"} if standby else {}
        self._text_keys: bool | None = None

    def get(self, key: Any, partition: int | None = None) -> Any:
        """The value of `key`, None if it has none. `partition`: the changelog partition of one task, for a key that
        several tasks have. Raises as `JobQueries.ask`."""
        result = self.entry(key, partition)
        return None if result is None else result.value

    def entry(self, key: Any, partition: int | None = None) -> StoreEntry | None:
        """Like `get`, but returns the entry with its partition, offset and lag."""
        result = self._job.ask(self._path, {"key": self._text(key), **_in(partition), **self._standby})
        if result is None:
            return None
        body, headers = result
        return StoreEntry(body["key"], body["value"], body["partition"], body["as_of"], _lag(headers))

    def range(self, from_key: Any = None, to_key: Any = None, partition: int | None = None) -> Iterator[StoreEntry]:
        """Entries with from_key <= key < to_key (None: no bound), in the order of the keys. They are read page by page,
        each as of its own commits."""
        bounds = {"from": from_key, "to": to_key}
        given = {name: self._text(key) for name, key in bounds.items() if key is not None}
        return self._pages({**given, **_in(partition)})

    def prefix(self, prefix: Any, partition: int | None = None) -> Iterator[StoreEntry]:
        """Entries with keys that start with `prefix`, as `range`."""
        return self._pages({"prefix": self._text(prefix), **_in(partition)})

    def _pages(self, parameters: Mapping[str, str]) -> Iterator[StoreEntry]:
        asked = {**parameters, **self._standby}
        while True:
            result = self._job.ask(self._path, asked)
            if result is None:
                return
            body, headers = result
            lag, as_of = _lag(headers), body["as_of"]
            for entry in body["entries"]:
                partition = entry["partition"]
                yield StoreEntry(entry["key"], entry["value"], partition, as_of.get(str(partition)), lag)
            if body["next"] is None:
                return
            asked["after"] = body["next"]

    def _text(self, key: Any) -> str:
        if self._text_keys is None:
            result = self._job.ask("/stores", {})
            stores = [] if result is None else result[0]["stores"]
            self._text_keys = any(item["name"] == self._index and item["text_keys"] for item in stores)
        if self._text_keys:
            if not isinstance(key, str):
                raise StoreError(f"store '{self._index}': keys are text, got {type(key).__name__} {key!r:.100}")
            return key
        return orjson.dumps(key, _plain).decode()


def _plain(key: object) -> str:
    return key.hex() if isinstance(key, (bytes, bytearray)) else str(key)


def _in(partition: int | None) -> dict[str, str]:
    return {} if partition is None else {"partition": str(partition)}


def _lag(headers: Mapping[str, str]) -> int | None:
    lag = headers.get(STANDBY_LAG)
    return None if lag is None else int(lag)


def job_queries(
    job: JobConfig | Mapping[str, str] | Path | str, address: str | None = None, *, deadline_s: float = 30.0
) -> JobQueries:
    """See `samzapy.query`."""
    config = job if isinstance(job, JobConfig) else load_job(job)
    return JobQueries(config, address, deadline_s=deadline_s)


def status_of(config: JobConfig) -> dict[str, Any]:
    """The status of the running job, as its page has it in JSON. Raises EnvironmentFailure if no run of it has a page
    here."""
    address = _page_address(config)
    if address is None:
        raise EnvironmentFailure(f"job '{config.name}': no run here has a status page (--runner local: job.page.port)")
    with closing(CoordinatorClient(*_parts(address))) as client:
        try:
            return client.status()
        except (RetriableError, TaskMigrated) as cause:
            raise EnvironmentFailure(f"job '{config.name}': its status page does not answer: {cause}") from cause
