"""Who may talk to the coordinator: the right Host (against DNS rebinding) and the token, always."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SECURITY = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Guard:
    """Wraps the application. A browser may bring the token once, as `/?token=...`, and gets a cookie that only
    reads; everything else, and every change, needs `Authorization: Bearer`. Refusals are 403 and say which."""

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(hosts)
        self._cookie = f"samzapy-{next(iter(sorted(hosts))).rpartition(':')[2]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] != "http":
            return

        async def hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_SECURITY)
            await send(message)

        await self._choose(scope)(scope, receive, hardened)

    def _choose(self, scope: Scope) -> ASGIApp:
        headers = Headers(scope=scope)
        if headers.get("host", "") not in self._hosts:
            return PlainTextResponse("unknown host\n", 403)
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._matches(given):
            return self._app
        if scope["method"] in {"GET", "HEAD"}:
            if self._matches(self._from_cookie(headers.get("cookie", ""))):
                return self._app
            if scope["path"] == "/" and self._matches(_from_query(scope)):
                welcome = RedirectResponse("/", 303)
                welcome.set_cookie(self._cookie, self._token.decode(), httponly=True, samesite="strict")
                return welcome
        return PlainTextResponse("token missing or wrong\n", 403)

    def _matches(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token)

    def _from_cookie(self, header: str) -> str:
        try:
            morsel = SimpleCookie(header).get(self._cookie)
        except CookieError:
            return ""
        return "" if morsel is None else str(morsel.value)


def _from_query(scope: Scope) -> str:
    query: str = scope.get("query_string", b"").decode("latin-1")
    return parse_qs(query).get("token", [""])[0]
