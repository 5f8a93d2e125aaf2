"""Lists of Google's REST APIs, read to their last page, from Google Cloud or from an endpoint that stands in for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ops.errors import MisconfiguredError
from ops.google_credentials import anonymous_if_local
from ops.google_errors import TIMEOUT_S, Asking, asking
from ops.stack import StackOutputs

SCOPE = "https://www.googleapis.com/auth/cloud-platform.read-only"


def listed(
    url: str, items: str, about: Asking, outputs: StackOutputs, *, token: str, safe: str
) -> Iterator[dict[str, Any]]:
    """Every document under `items` of a list; none where the API is off. `token` replaces the user's credentials.

    Raises:
        MisconfiguredError: no credentials; `safe` says what was not done.
        OpsError: as `asking` explains it.
    """
    from google.api_core.exceptions import from_http_response

    session = _session(url, token, safe)
    page = ""
    while True:
        with asking(about, outputs):
            answer = session.get(url, params={"pageToken": page} if page else {}, timeout=TIMEOUT_S)
            if answer.status_code == 403 and "SERVICE_DISABLED" in answer.text:
                return  # of an API that is off, nothing can be there
            if not answer.ok:
                raise from_http_response(answer)
            content: dict[str, Any] = answer.json()
        yield from content.get(items) or []
        page = str(content.get("nextPageToken") or "")
        if not page:
            return


def _session(url: str, token: str, safe: str) -> Any:
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError
    from google.auth.transport.requests import AuthorizedSession
    from google.oauth2.credentials import Credentials

    if anonymous := anonymous_if_local(url):
        session = AuthorizedSession(anonymous)
        session.trust_env = False  # no proxy of the environment reaches this machine's loopback
        return session
    if token:
        return AuthorizedSession(Credentials(token))
    try:
        return AuthorizedSession(google.auth.default(scopes=[SCOPE])[0])
    except DefaultCredentialsError as error:
        raise MisconfiguredError(
            f"No usable Google credentials: {error} {safe} "
            "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS."
        ) from None
