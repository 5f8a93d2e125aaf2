"""Turns what Google's clients raise into messages for the person who typed the command."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from ops.errors import MisconfiguredError, MissingError, OpsError, RefusedError, UnreachableError
from ops.stack import StackOutputs

TIMEOUT_S = 30
"""For one call. Google's generated clients wait for ever unless told."""


@dataclass(frozen=True)
class Asking:
    """One thing asked of one service: the words an error message is made of."""

    service: str
    action: str
    """As in "Cloud Run refused to ACTION"."""
    role: str
    """The predefined role that suffices for it."""
    missing: str
    """What it means, and what to do, when the object is not there."""
    safe: str = "Nothing was changed."


@contextmanager
def asking(what: Asking, outputs: StackOutputs) -> Generator[None]:
    """Within it, errors of Google's clients become those of `ops.errors`; all other exceptions pass."""
    try:
        yield
    except OSError as error:  # requests' exceptions are OSErrors, and so are plain socket errors
        raise _unreachable(what, outputs, error) from error
    except Exception as error:
        explained = _explain(what, outputs, error)
        if explained is None:
            raise
        raise explained from error


def _explain(what: Asking, outputs: StackOutputs, error: Exception) -> OpsError | None:
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth

    if isinstance(error, auth.TransportError | api.RetryError):
        return _unreachable(what, outputs, error)
    if isinstance(error, auth.GoogleAuthError):
        return MisconfiguredError(
            f"No usable Google credentials to {what.action}: {error} {what.safe} "
            "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS."
        )
    if not isinstance(error, api.GoogleAPICallError):
        return None
    return _answered(what, outputs, int(error.code or 0), _words(str(error.message or error)))


def _answered(what: Asking, outputs: StackOutputs, code: int, said: str) -> OpsError:
    if code == 404:
        return MissingError(f"{what.missing} {what.safe}")
    if code in {401, 403}:
        return RefusedError(
            f"{what.service} refused to {what.action} ({code}: {said}). {what.safe} The account that you use needs "
            f"{what.role} in project {outputs.project}; ask whoever keeps the project, "
            "or sign in as another with `gcloud auth application-default login`."
        )
    if code == 429 or code >= 500:
        return UnreachableError(
            f"{what.service} cannot {what.action} now ({code}: {said}). {what.safe} Try again in a minute."
        )
    return RefusedError(f"{what.service} refused to {what.action} ({code}: {said}). {what.safe}")


def _words(message: str) -> str:
    """What the service said, without the request's URL that the clients put in front."""
    return re.sub(r"^[A-Z]+ https?://\S+: ", "", message).strip().rstrip(".")


def _unreachable(what: Asking, outputs: StackOutputs, error: Exception) -> UnreachableError:
    if outputs.is_local:
        where = next(iter(outputs.endpoints.values()))
        return UnreachableError(
            f"The local cloud does not answer at {where}, so gpujob cannot {what.action}. {what.safe} "
            "See `gpujob local status`; start it with `gpujob local start`."
        )
    return UnreachableError(
        f"{what.service} cannot be reached to {what.action} ({type(error).__name__}: {error}). {what.safe} "
        "Check the network and try again."
    )
