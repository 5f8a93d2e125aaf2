"""Assembles one local cloud: parts, routes, recording; and takes up what an earlier server left behind."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localcloud.build.builder import Builder
from localcloud.build.images import Images
from localcloud.executor.engine import Executor
from localcloud.logs.store import LogStore
from localcloud.server import (
    admin,
    artifactregistry,
    cloudbuild,
    crm,
    iam,
    logging,
    longrunning,
    monitoring,
    objects,
    run,
    run_executions,
    scheduler,
    secretmanager,
    serviceusage,
    stamps,
    storage,
)
from localcloud.server.context import Cloud
from localcloud.server.emulator import ObjectServer
from localcloud.server.hold import Hold, HoldMiddleware
from localcloud.server.http import RawPath, unmatched
from localcloud.settings import HOST, Settings
from localcloud.store import Store

_PRODUCTS = (
    admin.routes,
    objects.routes,
    storage.routes,
    run.routes,
    run_executions.routes,
    logging.routes,
    longrunning.routes,
    iam.routes,
    serviceusage.routes,
    artifactregistry.routes,
    cloudbuild.routes,
    monitoring.routes_v3,
    monitoring.routes_v1,
    scheduler.routes,
    secretmanager.routes,
    crm.routes,
)
_NOT_RECORDED = frozenset({"alt", "$alt", "prettyPrint"})


def open_cloud(settings: Settings, port: int) -> Cloud:
    """The parts of a local cloud over its state directory.

    Raises:
        stamps.AttributesMissingError: the directory cannot hold objects.
    """
    settings.buckets_dir.mkdir(parents=True, exist_ok=True)
    stamps.check_file_system(settings.state_dir)
    store, logs = Store(settings.state_file), LogStore(settings.log_file)
    images = Images(store, settings.images_dir)
    return Cloud(
        settings=settings,
        port=port,
        store=store,
        logs=logs,
        executor=Executor(settings, store, logs, images, f"http://{HOST}:{port}"),
        builder=Builder(settings, store, logs),
        emulator=ObjectServer(settings.buckets_dir, port, settings.server_log),
        hold=Hold(),
    )


def build_app(cloud: Cloud) -> Starlette:
    """The ASGI application of one local cloud."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        cloud.builder.recover()
        cloud.executor.recover()
        yield
        await cloud.executor.shutdown()
        await cloud.emulator.stop()
        cloud.store.close()
        cloud.logs.close()

    middleware = [Middleware(HoldMiddleware, hold=cloud.hold), Middleware(RawPath)]
    if cloud.settings.record:
        middleware.insert(0, Middleware(_Recorder, path=cloud.settings.record))
    return Starlette(
        routes=[route for product in _PRODUCTS for route in product.bind(cloud)],
        middleware=middleware,
        lifespan=lifespan,
        exception_handlers={404: unmatched, 405: unmatched},
    )


class _Recorder:
    """Middleware: appends every request, with the status it got, to a file of JSON lines."""

    def __init__(self, app: ASGIApp, path: Path) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or str(scope["path"]).startswith("/_localcloud"):
            await self._app(scope, receive, send)
            return
        body, status = bytearray(), 0

        async def listen() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                body.extend(message.get("body", b""))
            return message

        async def speak(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._write(scope, bytes(body), status)
            await send(message)

        await self._app(scope, listen, speak)

    def _write(self, scope: Scope, body: bytes, status: int) -> None:
        raw = bytes(scope.get("raw_path") or b"").decode("latin-1").split("?", 1)[0]
        query = bytes(scope["query_string"]).decode("latin-1")
        kept = "&".join(part for part in query.split("&") if part.partition("=")[0] not in _NOT_RECORDED)
        line = {"method": scope["method"], "path": raw, "query": kept, "body": _parsed(body), "status": status}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body) if body.strip() else None
    except ValueError:
        return None
