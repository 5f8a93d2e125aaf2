"""The HTTP half: one request to a Google API on this machine, repeated where that is safe, and operations awaited."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

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
        headers = {"User-Agent": "localcloud-provider", "Accept": "application/json"}
        if settings.access_token:
            headers["Authorization"] = f"Bearer {settings.access_token}"
        # trust_env off: no proxy, no netrc, no certificate settings of the environment has a say in where this goes.
        self._client = httpx.Client(
            trust_env=False,
            follow_redirects=False,
            headers=headers,
            timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
            limits=httpx.Limits(max_connections=64),
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
            again = answer.status_code in _RETRIED_ALWAYS or (
                answer.status_code in _RETRIED_READS and method in ("GET", "DELETE")
            )
            if not again or pause_s is None or self.cancelled.wait(pause_s):
                return _parsed(answer, method)
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

    def _send(self, method: str, url: str, query: dict[str, str] | None, body: Values | None) -> httpx.Response:
        parameters = {"alt": "json", **(query or {})}
        # separators: exactly what Go's encoder writes, so that a recorded body can be compared byte for byte.
        content = None if body is None else json.dumps(body, separators=(",", ":"), sort_keys=True).encode()
        headers = {"Content-Type": "application/json"} if content is not None else {}
        for pause_s in (*_REFUSED_PAUSES_S, None):
            try:
                return self._client.request(method, url, params=parameters, content=content, headers=headers)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if pause_s is None or self.cancelled.wait(pause_s):
                    raise Unreachable(_nothing_there(url)) from error
            except httpx.HTTPError as error:
                raise Unfinished(
                    f"the connection broke during {method} {urlsplit(url).path} ({error or type(error).__name__}). "
                    "Whether it was carried out is not known: `pulumi refresh` tells."
                ) from error
        raise AssertionError


def _nothing_there(url: str) -> str:
    parts = urlsplit(url)
    return (
        f"nothing answers at {parts.scheme}://{parts.netloc}: the local cloud is not running, and nothing was sent. "
        "Start it with `gpujob local start` (or `python -m localcloud start`), then give the same command again."
    )


def _parsed(answer: httpx.Response, method: str) -> Values:
    path = answer.url.raw_path.decode().split("?")[0]
    parsed: Any = None
    try:
        parsed = answer.json() if answer.content else {}
    except ValueError:
        parsed = None
    if answer.is_redirect:
        where = answer.headers.get("location", "")
        raise ApiError(answer.status_code, "", f"a redirect to {where!r} is not followed", method, path)
    if answer.is_success:
        if isinstance(parsed, dict):
            return cast("Values", parsed)
        raise ApiError(answer.status_code, "", f"the answer is no JSON object: {answer.text[:200]!r}", method, path)
    error: Any = cast("Values", parsed).get("error") if isinstance(parsed, dict) else None
    if isinstance(error, dict):
        known = cast("Values", error)
        message = str(known.get("message", "")) or "no message"
        raise ApiError(answer.status_code, str(known.get("status", "")), message, method, path)
    raise ApiError(answer.status_code, "", answer.text[:300] or answer.reason_phrase, method, path)
