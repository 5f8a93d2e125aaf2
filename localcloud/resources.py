"""What every Google resource has in common: times, identifiers, etags, and names of its parts."""

import base64
import hashlib
import json
import secrets
import uuid
from datetime import UTC, datetime

from localcloud.jsontypes import Json

_ALPHABET = "bcdfghjklmnpqrstvwxyz0123456789"


def timestamp(moment: datetime | None = None) -> str:
    """RFC 3339 in UTC with microseconds; sorts as text."""
    return (moment or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> datetime:
    """The moment that an RFC 3339 text names. Digits below a microsecond are cut.

    Raises:
        ValueError: the text is no RFC 3339 time.
    """
    head, dot, tail = text.partition(".")
    if dot:
        digits = len(tail) - len(tail.lstrip("0123456789"))
        text = f"{head}.{tail[:digits][:6]}{tail[digits:]}"
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def unique_id() -> str:
    """A UUID as Google writes it."""
    return str(uuid.uuid4())


def numeric_id(seed: str = "") -> str:
    """A number of 19 digits at most: random, or always the same one for a seed (project numbers)."""
    digest = hashlib.sha256(seed.encode()).digest() if seed else secrets.token_bytes(8)
    return str(10**18 + int.from_bytes(digest[:8], "big") % (8 * 10**18))


def project_number(project: str) -> str:
    """The number of a project: 12 digits, the same for ever."""
    return str(10**11 + int.from_bytes(hashlib.sha256(project.encode()).digest()[:8], "big") % (9 * 10**11))


def suffix() -> str:
    """Five characters as Cloud Run appends to a job's name for an execution."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(5))


def etag(doc: Json) -> str:
    """A short text that differs when the document does."""
    digest = hashlib.sha256(json.dumps(doc, sort_keys=True).encode()).digest()
    return base64.b64encode(digest[:9]).decode()
