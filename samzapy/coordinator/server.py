"""Serves an application over HTTP: the server, who may read and who may act, and the certificate of a port.

uvicorn limits a request's headers, the time of an idle connection and the time of its own end. It waits for a first
request without a limit, so connections that have made none are closed after `SILENT_S` to twice as many seconds.
Nothing limits the number of connections: a container that gets no answer for the length of its lease stops, so a flood
of other connections must not be answered in its place.

There are two tokens, and a cookie for browsers that only reads:

1. The token that acts is the run's secret (`SAMZAPY_TOKEN`, else drawn). Containers send it; it may do everything.
2. The token that reads is derived from it. It needs no storage, and the token that acts cannot be computed from it. The
   address that a run prints contains this one.
3. A browser that opens `/?token=...` with either token gets a cookie, derived from the token that reads. The cookie is
   not a token: it is accepted for GET and HEAD only, and never in an `Authorization` header.

Comparisons take constant time. Where a cookie is accepted, a request also needs the right Host header, so that a
foreign page cannot reach the service under a name that it points here (DNS rebinding). The name decides; a tunnel or a
proxy may have a port of its own.

With TLS a port shows a certificate made for the run, with a P-256 key. That key leaves the process only for the moment
in which OpenSSL reads it, from a folder that is private to this user. Clients check no signature. They
pin the SHA-256 fingerprint, which they get together with the address, so a certificate needs no authority and no
matching name. `cryptography` is a mandatory dependency, because TLS is on by default for a remote master: an extra
would be missing on the first such run, and most images have no `openssl` command.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import logging
import re
import socket
import ssl
import tempfile
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import h11
import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)


class Tokens:
    """The tokens of one run. `act` may do everything, `read` may read everything, `cookie` is a browser's."""

    def __init__(self, act: str) -> None:
        self.act = act
        self.read = _derived(act, "samzapy: read")
        self.cookie = _derived(self.read, "samzapy: cookie")


def _derived(secret: str, purpose: str) -> str:
    digest = hmac.digest(secret.encode("utf-8", "surrogateescape"), purpose.encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


_SECURITY = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_READS = frozenset({"GET", "HEAD"})
#: A client with a token has no use for a refused connection.
_CLOSING = {"connection": "close"}
_PORT = re.compile(r":\d*$")


class Guard:
    """Wraps two applications: `calls` changes something, `views` only reads. A refusal is a 403 that says which check
    failed. A failure of either is logged.
    """

    def __init__(
        self,
        calls: ASGIApp,
        views: ASGIApp,
        tokens: Tokens,
        *,
        hosts: Collection[str] = (),
        cookie: str = "",
        open_to_all: Collection[str] = (),
    ) -> None:
        """`cookie`: the name of the cookie for browsers, different for each service of a host; without one, none is
        accepted. `hosts`: the host names and addresses, in lower case, that a request may use where a cookie is
        accepted. `open_to_all`: the paths of views that need no token."""
        self._calls, self._views = calls, views
        self._tokens = tokens
        self._act, self._read = _header(tokens.act), _header(tokens.read)
        self._hosts = frozenset(hosts)
        self._open = frozenset(open_to_all)
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._answer(scope, receive, send)
        except h11.LocalProtocolError:
            # The rest of a request was not HTTP. Its client has the answer, and any client could fill the log.
            logger.debug("A request that is not HTTP gets no other answer")
        except Exception:
            # Whoever has begun to answer has answered 500; else uvicorn does.
            logger.exception("%s failed", scope["path"])

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        authorization = headers.get(b"authorization", b"")
        known = not self._cookie or _name(headers.get(b"host", b"")) in self._hosts
        if known and scope["method"] == "POST" and hmac.compare_digest(authorization, self._act):
            await self._calls(scope, receive, send)
            return

        async def hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                fields = MutableHeaders(scope=message)
                for name, value in _SECURITY.items():
                    fields.setdefault(name, value)
            await send(message)

        chosen = self._choose(scope, headers, authorization, known=known)
        await chosen(scope, receive, hardened)

    def _choose(self, scope: Scope, headers: Mapping[bytes, bytes], authorization: bytes, *, known: bool) -> ASGIApp:
        reads = scope["method"] in _READS
        if reads and scope["path"] in self._open:
            return self._views
        if not known:
            return PlainTextResponse("unknown host: job.page.hosts has the names that are allowed\n", 403, _CLOSING)
        may_read = hmac.compare_digest(authorization, self._read)
        if may_read and not reads:
            return PlainTextResponse("this token may only read\n", 403, _CLOSING)
        if may_read or hmac.compare_digest(authorization, self._act) or (reads and self._has_cookie(headers)):
            return self._views
        if self._cookie and reads and scope["path"] == "/" and self._is_token(_from_query(scope)):
            welcome = RedirectResponse("/", 303)
            secure = scope["scheme"] == "https"
            welcome.set_cookie(self._cookie, self._tokens.cookie, httponly=True, samesite="strict", secure=secure)
            return welcome
        return PlainTextResponse("token missing or wrong\n", 403, _CLOSING)

    def _is_token(self, text: str) -> bool:
        # Both are compared, so that the time does not depend on the first.
        return any([_same(text, self._tokens.read), _same(text, self._tokens.act)])

    def _has_cookie(self, headers: Mapping[bytes, bytes]) -> bool:
        # A browser sends the cookies of all ports of a host. `http.cookies` stops at the first malformed cookie.
        if not self._cookie:
            return False
        cookies = cookie_parser(headers.get(b"cookie", b"").decode("latin-1"))
        return _same(cookies.get(self._cookie, ""), self._tokens.cookie)


def _name(host: bytes) -> str:
    """The name or address in a Host header."""
    return _PORT.sub("", host.decode("latin-1").lower()).removesuffix(".")


def _header(token: str) -> bytes:
    return b"Bearer " + token.encode("utf-8", "surrogateescape")


def _same(text: str, token: str) -> bool:
    return hmac.compare_digest(text.encode("utf-8", "replace"), token.encode("utf-8", "surrogateescape"))


def _from_query(scope: Scope) -> str:
    query: str = scope.get("query_string", b"").decode("latin-1")
    return parse_qs(query).get("token", [""])[0]


#: The validity of a certificate made for a run, longer than any run. It begins a day early, for clocks that are slow.
_VALID, _EARLY = timedelta(days=3_650), timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A certificate and its private key, both in PEM."""

    certificate: str
    key: str = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate, in 64 hexadecimal digits."""
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.certificate)).hexdigest()

    def context(self) -> ssl.SSLContext:
        """A server's context with this identity, for TLS 1.2 and newer."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # OpenSSL reads them only from files. The folder is private to this user.
        with tempfile.TemporaryDirectory(prefix="samzapy-tls-") as folder:
            certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
            certificate.write_text(self.certificate, encoding="ascii")
            key.touch(mode=0o600)
            key.write_text(self.key, encoding="ascii")
            context.load_cert_chain(certificate, key)
        return context


def made_for(host: str, now: datetime) -> Identity:
    """Make a self-signed identity for a coordinator at `host`, a name or an address."""
    # Only a run with TLS needs the library.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "samzapy coordinator")])
    try:
        place: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        place = x509.DNSName(host)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([place]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Identity(
        certificate.public_bytes(serialization.Encoding.PEM).decode("ascii"),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode("ascii"),
    )


#: Seconds in which a new connection has to make a request, until an idle one is closed, and for requests in progress at
#: the end.
SILENT_S, IDLE_S, GRACE_S = 10, 90, 1
#: Connections that the system keeps until they are accepted: all containers of a job may come at once.
BACKLOG = 2_048
_THREAD = "samzapy-http-"


def _is_foreign(line: logging.LogRecord) -> bool:
    """Whether a line of uvicorn is of a server that is not ours. The application logs its own failures; of the rest, a
    client without a token could fill the job's log."""
    return not str(line.threadName).startswith(_THREAD)


logging.getLogger("uvicorn.error").addFilter(_is_foreign)


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at the address; port 0: any free one. Raises OSError."""
    return socket.create_server((host, port), backlog=BACKLOG)


class HttpServer:
    """Serves `app` until closed, at listening sockets; those with an identity have TLS."""

    def __init__(self, app: ASGIApp, sockets: Mapping[socket.socket, Identity | None], name: str) -> None:
        """`name` is for the thread. The sockets are closed with the server."""
        self._servers = [(_server(app, identity), listening) for listening, identity in sockets.items()]
        self._thread = threading.Thread(target=self._run, name=f"{_THREAD}{name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving; closing twice is allowed."""
        for server, _ in self._servers:
            server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        watch = asyncio.ensure_future(self._close_silent())
        await asyncio.gather(*(server.serve([listening]) for server, listening in self._servers))
        watch.cancel()

    async def _close_silent(self) -> None:
        before: set[Any] = set()
        while True:
            await asyncio.sleep(SILENT_S)
            connections: list[Any] = [
                connection for server, _ in self._servers for connection in server.server_state.connections
            ]
            silent = {connection for connection in connections if connection.cycle is None}
            for connection in silent & before:
                connection.transport.abort()
            before = silent


def _server(app: ASGIApp, identity: Identity | None) -> uvicorn.Server:
    settings = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        loop="asyncio",
        http="h11",
        ws="none",
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    settings.load()
    settings.ssl = None if identity is None else identity.context()
    return uvicorn.Server(settings)
