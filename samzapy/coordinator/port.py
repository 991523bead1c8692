"""The HTTP port of a container: the series of its tasks and stores, and questions about its stores.

GET /metrics      the series, as Prometheus text
GET /snapshot     the metrics as JSON, by group and name
POST /questions   a packed Question: the Answer, from committed entries; for the driver

A request needs a token of the run, as at the driver. The port has TLS if the driver has it, with a certificate of its
own. The container reports address and fingerprint to the driver, which asks the questions of readers
(`samzapy.coordinator.queries`), and passes their other requests on:

GET /containers/ID/metrics     the series of one container
GET /containers/ID/snapshot    its metrics
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from urllib.parse import urlsplit

import urllib3
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from samzapy.config.job import JobConfig
from samzapy.coordinator.client import pinned_to
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.server import Guard, HttpServer, Tokens, listening, made_for
from samzapy.job.lease import ContainerLease, HttpAddress
from samzapy.job.planner import ContainerModel, replica_of
from samzapy.metrics import Registry
from samzapy.metrics.registry import CONTENT_TYPE, as_text, container_series, is_at_container
from samzapy.queries.committed import Answer, CommittedStores, Problem, Question, pack, unpack
from samzapy.strict_json import encode

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PortSettings:
    """How a container serves its port: at the address `host`, with TLS if `secure`, for readers with a token that
    derives from `token`, the one that acts."""

    host: str
    token: str = field(repr=False)
    secure: bool = False

    @classmethod
    def facing(cls, driver: HttpAddress, token: str) -> PortSettings:
        """At this machine's address on the way to the driver: loopback, if the driver is there."""
        parts = urlsplit(driver.url)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            # Sends nothing.
            way.connect((parts.hostname, parts.port))
            return cls(way.getsockname()[0], token, driver.fingerprint is not None)


@contextmanager
def container_port(
    settings: PortSettings,
    config: JobConfig,
    model: ContainerModel,
    lease: ContainerLease,
    metrics: Registry,
    stores: CommittedStores,
) -> Iterator[None]:
    """Serve the port during the context; the reports of `lease` name its address.

    If the container's port of `metrics.prometheus.port` is taken, another one is served. If none can be, a warning is
    logged: a port never ends a job.
    """
    first, host = config.prometheus_port, settings.host
    port = first + int(model.id) if first and not replica_of(model.id) else 0
    opened = _opened(host, port) or (_opened(host, 0) if port else None)
    if opened is None:
        yield
        return
    tasks = frozenset(task.name for task in model.tasks)

    def series() -> bytes:
        return as_text(container_series(config.name, model.id, tasks, metrics, is_at_container))

    views = [_view("/metrics", series, CONTENT_TYPE), _view("/snapshot", lambda: encode(metrics.snapshot()), _JSON)]
    calls = [Route("/questions", stores.endpoint, methods=["POST"])] if config.supervision.query.enabled else []
    guard = Guard(Starlette(routes=calls), Starlette(routes=views), Tokens(settings.token))
    identity = made_for(settings.host, datetime.now(timezone.utc)) if settings.secure else None
    # Asked for first: a server closes its socket.
    number = opened.getsockname()[1]
    scheme, fingerprint = ("http", None) if identity is None else ("https", identity.fingerprint)
    server = HttpServer(guard, {opened: identity}, "container")
    lease.port = HttpAddress(f"{scheme}://{host}:{number}", fingerprint)
    # A port that the job file names is somebody's address.
    logger.log(logging.INFO if first else logging.DEBUG, "Metrics are served on %s/metrics", lease.port.url)
    try:
        yield
    finally:
        lease.port = None
        server.close()


_JSON = "application/json"


def _opened(host: str, port: int) -> socket.socket | None:
    try:
        return listening(host, port)
    except (OSError, OverflowError) as cause:
        logger.warning("metrics.prometheus.port: a container cannot listen on %s:%d (%s)", host, port, cause)
        return None


def _view(path: str, render: Callable[[], bytes], media_type: str) -> Route:
    def endpoint(_: Request) -> Response:
        return Response(render(), media_type=media_type)

    return Route(path, endpoint)


#: Seconds to wait for a connection to a container, and for the answer to a request that is passed on.
CONNECT_S, ANSWER_S = 2.0, 10.0
#: Seconds that a container may take to answer a question.
QUESTION_S = 5.0
#: Containers that are asked at the same time. Each may answer with a whole page.
MOST_ASKED = 16


class ContainerPorts:
    """The HTTP ports of a job's containers, as the driver calls them. Any thread may call it.

    A container is at the address that its newest attempt has reported, with the certificate that it has reported. An
    attempt that was superseded is never asked.
    """

    def __init__(self, coordinator: Coordinator, token: str) -> None:
        """`token`: the one that acts."""
        self._coordinator = coordinator
        self._headers = {"authorization": f"Bearer {token}"}
        self._manager = urllib3.PoolManager(num_pools=1_000, maxsize=MOST_ASKED)

    @property
    def routes(self) -> list[Route]:
        return [Route(f"/containers/{{id}}/{name}", self._pass_on) for name in ("metrics", "snapshot")]

    def ask(self, container_id: str, question: Question) -> Answer:
        """The container's answer; `MOVING` without one."""
        port = self._coordinator.ports.get(container_id)
        if port is None:
            return Answer(problem=Problem.MOVING, message="its container is starting or moving")
        try:
            answer = self._request(port, "POST", "/questions", QUESTION_S, pack(question))
            if answer.status == 200:
                return unpack(Answer, answer.data)
            reason = f"answers {answer.status}"
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
            answer = self._request(port, "GET", f"/{name}", ANSWER_S)
        except urllib3.exceptions.HTTPError as cause:
            return PlainTextResponse(f"container {container_id} does not answer ({type(cause).__name__})\n", 503)
        return Response(answer.data, answer.status, media_type=answer.headers.get("content-type"))

    def _request(
        self, port: HttpAddress, method: str, path: str, answer_s: float, body: bytes | None = None
    ) -> urllib3.BaseHTTPResponse:
        pool = self._manager.connection_from_url(port.url, pinned_to(port.fingerprint))
        timeout = urllib3.Timeout(connect=min(CONNECT_S, answer_s), read=answer_s)
        return pool.urlopen(method, path, body, self._headers, retries=False, timeout=timeout)
