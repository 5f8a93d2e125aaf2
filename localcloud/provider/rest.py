"""The HTTP half: one request to a Google API on this machine, repeated where that is safe, and operations awaited."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from localcloud.provider.errors import ApiError, Refused, Unfinished, Unreachable
from localcloud.provider.settings import Settings, is_loopback
from localcloud.provider.values import Values

_CONNECT_S = 5.0
_ANSWER_S = 120.0
# About seven seconds in all: the local cloud may be starting again, but nobody should wait long to learn it is not.
_PAUSES_S = (0.2, 0.4, 0.8, 1.6, 4.0)
_REFUSED_PAUSES_S = (0.2, 0.5)
_RETRIED_ALWAYS = (429, 503)
_RETRIED_READS = (500, 502, 504)
_FIRST_POLL_S = 0.05


class Rest:
    """Requests for one configured provider. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.cancelled = threading.Event()
        self._headers = {"User-Agent": "localcloud-provider", "Accept": "application/json"}
        if settings.access_token:
            self._headers["Authorization"] = f"Bearer {settings.access_token}"
        # urllib3 by itself: it looks at no proxy, netrc or certificate settings of the environment, so none of them has
        # a say in where this goes.
        self._pool = urllib3.PoolManager(
            maxsize=64, timeout=urllib3.Timeout(connect=_CONNECT_S, read=_ANSWER_S), retries=False
        )

    def call(self, method: str, url: str, *, query: dict[str, str] | None = None, body: Values | None = None) -> Values:
        """Send one request and return the answer's JSON, {} where there is none.

        Raises:
            ApiError: the API answered with an error, after repeats where a repeat is safe.
            Unreachable: nothing listens there.
            Unfinished: the connection broke after a change was sent.
        """
        host = urlsplit(url).hostname or ""
        if not is_loopback(host):
            raise Refused(f"{host} is not this machine; nothing was sent")
        for pause_s in (*_PAUSES_S, None):
            answer = self._send(method, url, query, body)
            again = answer.status in _RETRIED_ALWAYS or (
                answer.status in _RETRIED_READS and method in ("GET", "DELETE")
            )
            if not again or pause_s is None or self.cancelled.wait(pause_s):
                return _parsed(answer, method, urlsplit(url).path)
        raise AssertionError

    def wait(self, base: str, operation: Values, timeout_s: float) -> Values:
        """Await a long-running operation and return its response.

        Args:
            base: address under which the operation's name is asked for.

        Raises:
            ApiError: the operation failed.
            Unfinished: it was still running at the timeout or when the command was cancelled.
        """
        name = str(operation.get("name", ""))
        deadline = time.monotonic() + timeout_s
        pause_s = _FIRST_POLL_S
        while not operation.get("done"):
            if self.cancelled.wait(pause_s):
                raise Unfinished(f"cancelled while operation {name} was running; `pulumi refresh` shows how it ended")
            if time.monotonic() > deadline:
                raise Unfinished(f"operation {name} was still running after {timeout_s:.0f} s")
            pause_s = min(pause_s * 2, self.settings.poll_interval_s)
            try:
                operation = self.call("GET", base + name)
            except (ApiError, Unreachable) as error:
                raise Unfinished(f"operation {name} could not be asked for: {error}") from error
        error = operation.get("error")
        if error:
            code = int(error.get("code", 0))
            raise ApiError(
                code, "operation failed", str(error.get("message", error)), "GET", urlsplit(base + name).path
            )
        return cast("Values", operation.get("response") or {})

    def _send(
        self, method: str, url: str, query: dict[str, str] | None, body: Values | None
    ) -> urllib3.BaseHTTPResponse:
        address = f"{url}?{urlencode({'alt': 'json', **(query or {})}, quote_via=quote)}"
        content = None if body is None else json.dumps(body, sort_keys=True).encode()
        headers = self._headers if content is None else {**self._headers, "Content-Type": "application/json"}
        for pause_s in (*_REFUSED_PAUSES_S, None):
            try:
                return self._pool.request(method, address, body=content, headers=headers, redirect=False)
            except (NewConnectionError, ConnectTimeoutError) as error:
                if pause_s is None or self.cancelled.wait(pause_s):
                    raise Unreachable(_nothing_there(url)) from error
            except HTTPError as error:
                raise Unfinished(
                    f"the connection broke during {method} {urlsplit(url).path} ({error}). "
                    "Whether it was carried out is not known: `pulumi refresh` tells."
                ) from error
        raise AssertionError


def _nothing_there(url: str) -> str:
    parts = urlsplit(url)
    return (
        f"nothing answers at {parts.scheme}://{parts.netloc}: the local cloud is not running, and nothing was sent. "
        "Start it with `gpujob local start` (or `python -m localcloud start`), then give the same command again."
    )


def _parsed(answer: urllib3.BaseHTTPResponse, method: str, path: str) -> Values:
    text = answer.data.decode(errors="replace")
    parsed: Any = None
    with contextlib.suppress(ValueError):
        parsed = json.loads(text) if text.strip() else {}
    if answer.get_redirect_location():
        where = answer.headers.get("location", "")
        raise ApiError(answer.status, "", f"a redirect to {where!r} is not followed", method, path)
    if 200 <= answer.status < 300:
        if isinstance(parsed, dict):
            return cast("Values", parsed)
        raise ApiError(answer.status, "", f"the answer is no JSON object: {text[:200]!r}", method, path)
    error: Any = cast("Values", parsed).get("error") if isinstance(parsed, dict) else None
    if isinstance(error, dict):
        known = cast("Values", error)
        message = str(known.get("message", "")) or "no message"
        raise ApiError(answer.status, str(known.get("status", "")), message, method, path)
    raise ApiError(answer.status, "", text[:300] or str(answer.reason), method, path)
