"""Generation preconditions of object requests, decided against the object's own metadata."""

from collections.abc import Mapping

from localcloud.jsontypes import Json
from localcloud.server.errors import ApiError


class NotModifiedError(Exception):
    """A read asked for a change and there is none: answered with 304."""


def check(conditions: Mapping[str, str], current: Json | None, *, of: str = "", reading: bool = False) -> None:
    """Compare an object's metadata (None: there is no object) with the query's conditions.

    Args:
        of: "" for the object that the request is about, "Source" for the one that it copies or moves.
        reading: whether the request only reads.

    Raises:
        ApiError: 412, one does not hold.
        NotModifiedError: see there.
    """
    generation = str(current["Generation"]) if current else "0"
    for name, have in (("Generation", generation), ("Metageneration", "1" if current else "0")):
        wanted, unwanted = conditions.get(f"if{of}{name}Match"), conditions.get(f"if{of}{name}NotMatch")
        if unwanted is not None and unwanted == have and reading:
            raise NotModifiedError
        if (wanted is not None and wanted != have) or (unwanted is not None and unwanted == have):
            raise ApiError(412, "At least one of the pre-conditions you specified did not hold.")
