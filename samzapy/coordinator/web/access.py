"""Decides who may read and who may act: two tokens, and a cookie for browsers that only reads.

1. The token that acts is the run's secret (`SAMZAPY_TOKEN`, else drawn). Containers send it; it may do everything.
2. The token that reads is derived from it. It needs no storage, and the token that acts cannot be computed from it. The
   address that a run prints contains this one.
3. A browser that opens `/?token=...` with either token gets a cookie, derived from the token that reads. The cookie is
   not a token: it is accepted for GET and HEAD only, and never in an `Authorization` header.

Comparisons take constant time. Where a cookie is accepted, a request also needs the right Host header, so that a
foreign page cannot reach the service under a name that it points here (DNS rebinding). The name decides; a tunnel or a
proxy may have a port of its own.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import re
from collections.abc import Collection, Mapping
from urllib.parse import parse_qs

import h11
from starlette.datastructures import MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Tokens:
    """The tokens of one run. `act` may do everything, `read` may read everything, `cookie` is a browser's."""

    def __init__(self, act: str) -> None:
        """`act`: the run's secret, any text."""
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


logger = logging.getLogger(__name__)


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
        """Answer or pass on one request."""
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
