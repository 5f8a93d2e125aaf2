"""What Cloud Storage's client raises, as the OSError that a store promises: its errno, and what to do about it."""

from __future__ import annotations

import errno
import http.client
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator

ROLE = "roles/storage.objectUser"
"""The least role with which a line can be kept: objects are created, read, listed, moved and deleted."""

_BY_STATUS = {
    401: errno.EACCES,
    403: errno.EACCES,
    404: errno.ENOENT,
    408: errno.ETIMEDOUT,
    412: errno.EEXIST,
    504: errno.ETIMEDOUT,
}
"""Everything else the service answers is EIO, and EINVAL for 400."""
_BUSY = frozenset({"rateLimitExceeded", "userRateLimitExceeded"})
"""Reasons of a 403 that says "too many requests" and not "forbidden"."""


@contextmanager
def as_os_errors(url: str) -> Generator[None]:
    """Around a use of the client: what it raises comes out as an OSError about `url`. Other exceptions pass."""
    try:
        yield
    except Exception as error:
        told = os_error(error, url)
        if told is None:
            raise
        raise told from error


def os_error(error: Any, url: str) -> OSError | None:
    """The OSError for an exception of the client, or of what it is built on; None for any other exception."""
    import requests
    import urllib3
    from google.api_core.exceptions import GoogleAPICallError, RetryError
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse

    unreachable = (
        *(requests.RequestException, urllib3.exceptions.HTTPError, http.client.HTTPException),
        *(ConnectionError, TimeoutError),
    )
    match error:
        case GoogleAPICallError() | InvalidResponse():
            told = _answered(error, url)
        case RetryError():
            inner = os_error(error.cause, url)
            last = inner.strerror if inner else error.cause
            told = OSError(errno.ETIMEDOUT, f"Cloud Storage did not do it in time; it last said: {last}", url)
        case GoogleAuthError():
            told = _unauthenticated(error, url)
        case DataCorruption():
            told = OSError(errno.EIO, f"Bytes changed on their way: {error}", url)
        case _ if isinstance(error, unreachable):
            slow = (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError)
            number = errno.ETIMEDOUT if isinstance(error, slow) else errno.EIO
            told = OSError(number, f"Cloud Storage does not answer ({error})", url)
        case _:
            told = None
    return told


def _answered(error: Any, url: str) -> OSError:
    """What the service itself says is in its answer: the client wraps it differently for each kind of call."""
    status, message, reasons = int(getattr(error, "code", 0) or 0), str(error), set[str]()
    if error.response is not None:
        status = int(error.response.status_code)
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            told = error.response.json()["error"]
            message = str(told["message"])
            reasons = {str(each.get("reason")) for each in told.get("errors", ())}
    return _of_status(429 if status == 403 and reasons & _BUSY else status, message, url)


def _of_status(status: int, message: str, url: str) -> OSError:
    number = errno.EINVAL if status == 400 else _BY_STATUS.get(status, errno.EIO)
    if number == errno.EACCES:
        message = f"Cloud Storage refuses this account: {message.rstrip('. ')}. Grant it {ROLE} on the bucket"
    elif number == errno.EEXIST:
        message = "The object exists already"
    return OSError(number, f"{message} (HTTP {status})", url)


def _unauthenticated(error: Any, url: str) -> OSError:
    from google.auth.exceptions import InvalidOperation, TransportError

    if isinstance(error, InvalidOperation):  # what anonymous ones, those of an emulator, say to a 401
        return _of_status(401, "it has no valid credentials", url)
    if isinstance(error, TransportError) or getattr(error, "retryable", False):
        return OSError(errno.EIO, f"The service that gives out credentials cannot be reached ({error})", url)
    return OSError(
        errno.EACCES,
        f"There are no credentials for Cloud Storage ({error}). In a job the service account's are found; by hand: "
        "gcloud auth application-default login",
        url,
    )
