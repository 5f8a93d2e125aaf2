"""From an HTTP request to a function of one product, and back: raw-path routing, JSON, errors.

Routing looks at the raw path, so that a name with an encoded slash stays one segment (`metrics/team%2Fpreemptions`);
handlers get it decoded.
"""

import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from localcloud.jsontypes import Json, obj
from localcloud.kinds import Kind
from localcloud.server.context import Cloud
from localcloud.server.errors import ApiError, invalid, not_found


@dataclass(frozen=True)
class Call:
    """One request as a handler sees it. `body` is an empty object when the request had none."""

    cloud: Cloud
    params: dict[str, str]
    query: dict[str, str]
    body: Json
    request: Request

    def flag(self, name: str) -> bool:
        """A boolean query parameter."""
        return self.query.get(name, "").lower() in {"true", "1"}

    def stored(self, kind: Kind, name: str) -> Json:
        """The document of that name.

        Raises:
            ApiError: 404 when there is none.
        """
        found = self.cloud.store.get(kind, name)
        if found is None:
            raise not_found(name)
        return found


Handler = Callable[[Call], Any]


class Routes:
    """The endpoints of one product, below every prefix it answers under (`/run/v2` and `/v2`)."""

    def __init__(self, *prefixes: str) -> None:
        self._prefixes = prefixes
        self._routes: list[tuple[str, str, Handler]] = []

    def on(self, method: str, path: str) -> Callable[[Handler], Handler]:
        """Register a handler; it may be a coroutine function and may return JSON or a Response."""

        def register(handler: Handler) -> Handler:
            self._routes.append((method, path, handler))
            return handler

        return register

    def bind(self, cloud: Cloud) -> list[Route]:
        """Routes for the application: custom verbs (`...:run`) first, so that a name pattern does not swallow them."""
        ordered = sorted(self._routes, key=lambda route: ":" not in route[1].rsplit("/", 1)[-1].replace(":path", ""))
        return [
            Route(prefix + path, _endpoint(cloud, handler), methods=[method])
            for prefix in self._prefixes
            for method, path, handler in ordered
        ]


def _endpoint(cloud: Cloud, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    raw = getattr(handler, "raw_body", False)

    async def endpoint(request: Request) -> Response:
        try:
            call = Call(
                cloud=cloud,
                params={key: unquote(value) for key, value in request.path_params.items()},
                query=dict(request.query_params),
                body={} if raw else await _json_body(request),
                request=request,
            )
            answer = handler(call)
            if inspect.isawaitable(answer):
                answer = await answer
        except ApiError as error:
            return error_response(error)
        return answer if isinstance(answer, Response) else JSONResponse(answer)

    return endpoint


def raw_body(handler: Handler) -> Handler:
    """Mark a handler that reads the request's body itself (uploads)."""
    handler.raw_body = True  # pyright: ignore[reportFunctionMemberAccess]  # a mark on a function, read above
    return handler


async def _json_body(request: Request) -> Json:
    data = await request.body()
    if not data.strip():
        return {}
    try:
        body = json.loads(data)
    except ValueError as error:
        raise invalid(f"Invalid JSON payload received. {error}") from error
    if body is not None and not isinstance(body, dict):
        raise invalid("Invalid JSON payload received. Root element must be a message.")
    return obj(body)


def error_response(error: ApiError) -> Response:
    """The HTTP answer for a refusal."""
    return JSONResponse(error.document(), status_code=error.code)


async def unmatched(request: Request, _error: Exception) -> Response:
    """404 or 405 for what no product serves: the message names the request, because the caller may be right and we
    incomplete."""
    message = (
        f"The local cloud does not serve {request.method} {request.scope['path']}. "
        "Nothing was changed. docs/local-cloud.md lists the products and calls it knows."
    )
    return error_response(ApiError(404, message))


class RawPath:
    """Middleware: the application routes on the path as it was sent, each segment decoded but for slashes inside it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = bytes(scope.get("raw_path") or b"").decode("latin-1").split("?", 1)[0]
            segments = [quote(unquote(each), safe="!$&'()*+,;=:@~-._ ").replace(" ", "%20") for each in raw.split("/")]
            scope = {**scope, "path": "/".join(segments), "raw_request_path": raw}
        await self._app(scope, receive, send)


def page(call: Call, found: list[Json], field: str, *, size: int = 100, size_key: str = "pageSize") -> Json:
    """One page of a listing: `{field: [...], nextPageToken?}`. A page token is the index where the page begins."""
    try:
        start = int(call.query.get("pageToken") or 0)
        wanted = int(call.query.get(size_key) or 0) or size
    except ValueError as error:
        raise invalid("pageSize and pageToken must be those of an earlier answer.") from error
    answer: Json = {field: found[start : start + wanted]} if found else {}
    if start + wanted < len(found):
        answer["nextPageToken"] = str(start + wanted)
    return answer
