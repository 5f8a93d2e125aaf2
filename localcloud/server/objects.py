"""Object requests: preconditions are decided here, then the request goes to the emulator with its raw path.

The emulator (fake-gcs-server) ignores generation preconditions on its file backend, so they are checked against the
object's own metadata under a lock for each object, which makes check and write one step for every client of this
server.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, unquote

import httpcore
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from localcloud.jsontypes import Json, items, obj
from localcloud.server import stamps
from localcloud.server.emulator import EmulatorMissingError
from localcloud.server.errors import ApiError, unsupported
from localcloud.server.http import Call, Routes, raw_body
from localcloud.server.moves import move
from localcloud.server.preconditions import NotModifiedError, check
from localcloud.server.storage import bucket_of
from localcloud.settings import HOST

routes = Routes("")
_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "keep-alive", "host", "content-length", "expect"})
_TIMEOUTS = {"timeout": {"connect": 10.0, "read": 600.0, "write": 600.0, "pool": 60.0}}


@raw_body
async def list_objects(call: Call) -> Response:
    """Objects of a bucket; files that tasks wrote through a mount are among them."""
    bucket = str(bucket_of(call)["name"])
    await asyncio.to_thread(stamps.stamp_tree, call.cloud.settings.buckets_dir / bucket, call.query.get("prefix", ""))
    return await _forward(call)


@raw_body
async def one_object(call: Call) -> Response:
    """Read, change or delete one object, or move it, or copy, rewrite or compose into it."""
    bucket, rest = str(bucket_of(call)["name"]), call.request.path_params["rest"]
    segments = [unquote(each) for each in str(rest).split("/")]
    if len(segments) == 4 and segments[1:3] == ["moveTo", "o"] and call.request.method == "POST":
        return await move(call, bucket, segments[0], segments[3])
    names, target = {(bucket, segments[0])}, (bucket, segments[0])
    sources = dict[str, dict[str, str]]()
    if len(segments) >= 6 and segments[1] in ("copyTo", "rewriteTo"):
        target = (segments[3], segments[5])
        names.add(target)
    if len(segments) == 2 and segments[1] == "compose":
        sources = _compose_sources(await call.request.body())
        names |= {(bucket, name) for name in sources}
    elif len(segments) > 1 and segments[1] not in ("copyTo", "rewriteTo", "acl"):
        # A slash that was not encoded: the name goes on.
        names, target = {(bucket, "/".join(segments))}, (bucket, "/".join(segments))
    for name in names:
        await asyncio.to_thread(stamps.stamp_object, call.cloud.settings.buckets_dir, *name)
    for name, wanted in sources.items():
        check(wanted, stamps.read(call.cloud.settings.buckets_dir, bucket, name))
    if call.request.method == "GET":
        return await _guarded(call, target, dict(call.query))
    async with call.cloud.emulator.locks[target]:
        return await _guarded(call, target, dict(call.query))


@raw_body
async def upload(call: Call) -> Response:
    """Media, multipart and resumable uploads; preconditions of the latter are checked at begin and end."""
    bucket, name = str(bucket_of(call)["name"]), call.query.get("name", "")
    kind = call.query.get("uploadType", "")
    if "upload_id" in call.query:
        return await resume(call)
    if not name and kind in ("multipart", "resumable"):
        name = str(_upload_metadata(await call.request.body()).get("name", ""))
    if not name:
        raise ApiError(400, "Required parameter: name", reason="required")
    target, conditions = (bucket, name), dict(call.query)
    async with call.cloud.emulator.locks[target]:
        await asyncio.to_thread(stamps.stamp_object, call.cloud.settings.buckets_dir, *target)
        answer = await _guarded(call, target, conditions)
    if kind == "resumable" and "location" in answer.headers:
        call.cloud.emulator.uploads[_upload_id(answer.headers["location"])] = (*target, conditions)
    return answer


@raw_body
async def resume(call: Call) -> Response:
    """A chunk of a resumable upload."""
    upload_id = call.query.get("upload_id") or str(call.request.path_params.get("upload_id", ""))
    known = call.cloud.emulator.uploads.get(upload_id)
    if known is None:
        return await _forward(call)
    bucket, name, conditions = known
    async with call.cloud.emulator.locks[bucket, name]:
        await asyncio.to_thread(stamps.stamp_object, call.cloud.settings.buckets_dir, bucket, name)
        answer = await _guarded(call, (bucket, name), conditions)
    if answer.status_code in (200, 201):
        call.cloud.emulator.uploads.pop(upload_id, None)
    return answer


@raw_body
async def batch(call: Call) -> Response:
    """Batches name their objects inside; everything is stamped, preconditions are left to the emulator."""
    await asyncio.to_thread(stamps.stamp_all, call.cloud.settings.buckets_dir)
    return await _forward(call)


@raw_body
def missing_caches(call: Call) -> Response:
    """The provider asks before it deletes a bucket, and ignores that there are none."""
    raise ApiError(404, f"Bucket {bucket_of(call)['name']} has no Anywhere Cache.")


def _compose_sources(body: bytes) -> dict[str, dict[str, str]]:
    """Name -> preconditions of each source of a composition."""
    found = dict[str, dict[str, str]]()
    for source in items(obj(json.loads(body)).get("sourceObjects")):
        wanted = obj(source.get("objectPreconditions")).get("ifGenerationMatch") or source.get("generation")
        found[str(source["name"])] = {} if wanted is None else {"ifGenerationMatch": str(wanted)}
    return found


def _upload_id(location: str) -> str:
    path, _, query = location.partition("?")
    return parse_qs(query).get("upload_id", [path.rsplit("/", 1)[-1]])[0]


def _upload_metadata(body: bytes) -> Json:
    """The JSON part of a multipart body, or the JSON body that begins a resumable upload."""
    match = re.search(rb"\r?\n\r?\n(\{.*?\})\r?\n--", body[: 1 << 20], re.DOTALL) if body[:2] == b"--" else None
    try:
        return obj(json.loads(match[1] if match else body or b"{}"))
    except ValueError as error:
        raise ApiError(400, "The upload's metadata is no JSON object.") from error


async def _guarded(call: Call, target: tuple[str, str], conditions: dict[str, str]) -> Response:
    current = stamps.read(call.cloud.settings.buckets_dir, *target)
    try:
        check(conditions, current, reading=call.request.method == "GET")
    except NotModifiedError:
        return Response(status_code=304)
    wanted = call.query.get("generation")
    if wanted and (current is None or str(current["Generation"]) != wanted):
        raise ApiError(404, f"No such object: {target[0]}/{target[1]} of generation {wanted}.")
    return await _forward(call)


async def _forward(call: Call) -> Response:
    """The request as it came, to the emulator, and its answer as it comes."""
    emulator, request = call.cloud.emulator, call.request
    try:
        base = await emulator.address()
    except EmulatorMissingError as error:
        raise unsupported(str(error)) from error
    path = str(request.scope["raw_request_path"])
    path = path if not path.startswith("/b/") else f"/storage/v1{path}"
    url = f"{base}{path}" + (f"?{request.url.query}" if request.url.query else "")
    headers = [(key, value) for key, value in request.headers.raw if key.decode() not in _HOP_BY_HOP]
    headers.append((b"host", f"{HOST}:{call.cloud.port}".encode()))  # the emulator routes by its public host
    body: bytes | AsyncIterator[bytes] = b""
    if "content-length" in request.headers:
        headers.append((b"content-length", request.headers["content-length"].encode()))
        body = request.stream()
    elif "transfer-encoding" in request.headers:
        headers.append((b"transfer-encoding", b"chunked"))
        body = request.stream()
    try:
        answer = await emulator.pool.handle_async_request(
            httpcore.Request(request.method, url, headers=headers, content=body, extensions=_TIMEOUTS)
        )
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, ClientDisconnect) as error:
        raise ApiError(
            503, f"The object server did not answer {request.method} {path} ({error!r}). It is restarted; repeat."
        ) from error
    if request.method == "DELETE" and answer.status == 200:
        await answer.aread()
        await answer.aclose()
        return Response(status_code=204)
    kept = {key.decode().lower(): value.decode("latin-1") for key, value in answer.headers}

    async def stream() -> AsyncIterator[bytes]:
        try:
            async for chunk in answer.aiter_stream():
                yield chunk
        finally:
            await answer.aclose()

    shown = {key: value for key, value in kept.items() if key not in ("connection", "transfer-encoding", "date")}
    return StreamingResponse(stream(), status_code=answer.status, headers=shown)


for _prefix in ("/storage/v1", "", "/download/storage/v1"):
    for _method in ("GET", "PATCH", "PUT", "DELETE", "POST"):
        routes.on(_method, _prefix + "/b/{bucket}/o/{rest:path}")(one_object)
    routes.on("GET", _prefix + "/b/{bucket}/o")(list_objects)
    routes.on("GET", _prefix + "/b/{bucket}/anywhereCaches/")(missing_caches)
for _prefix in ("/upload/storage/v1", "/resumable/upload/storage/v1"):
    for _method in ("POST", "PUT"):
        routes.on(_method, _prefix + "/b/{bucket}/o")(upload)
for _method in ("PUT", "POST", "DELETE"):
    routes.on(_method, "/upload/resumable/{upload_id}")(resume)
routes.on("POST", "/batch/storage/v1")(batch)
