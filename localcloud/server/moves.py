"""objects.move: an object gets another name in its bucket, in one act. The emulator has none, so it is done here.

The object's file is renamed, with its attributes, under the locks of both names: of a move and a deletion of its source
that arrive together, one finds nothing.
"""

import asyncio
from urllib.parse import quote

from starlette.responses import Response

from localcloud.server import stamps
from localcloud.server.errors import ApiError, invalid
from localcloud.server.http import Call
from localcloud.server.preconditions import check
from localcloud.settings import HOST


async def move(call: Call, bucket: str, source: str, target: str) -> Response:
    """The resource of the object under its new name.

    Raises:
        ApiError: 404 without a source, 412 when a precondition of either does not hold.
    """
    if source == target:
        raise invalid("The source and destination object names must be different.")
    directory, locks = call.cloud.settings.buckets_dir, call.cloud.emulator.locks
    first, second = sorted((source, target))
    async with locks[bucket, first], locks[bucket, second]:
        for name in (source, target):
            await asyncio.to_thread(stamps.stamp_object, directory, bucket, name)
        found, there = stamps.read(directory, bucket, source), stamps.read(directory, bucket, target)
        if found is None:
            raise ApiError(404, f"No such object: {bucket}/{source}")
        check(call.query, found, of="Source")
        check(call.query, there)
        await asyncio.to_thread(stamps.rename, directory, bucket, source, target)
        return await _resource(call, bucket, target)


async def _resource(call: Call, bucket: str, name: str) -> Response:
    base = await call.cloud.emulator.address()
    url = f"{base}/storage/v1/b/{quote(bucket)}/o/{quote(name, safe='')}"
    host = f"{HOST}:{call.cloud.port}"  # the emulator routes by its public host
    answer = await call.cloud.emulator.pool.request("GET", url, headers={"host": host})
    return Response(answer.content, status_code=answer.status, media_type="application/json")
