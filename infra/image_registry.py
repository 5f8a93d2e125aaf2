"""Whether an image that was built is still there: one look into Artifact Registry, by digest.

Runs in the dynamic provider's process; knows nothing of Pulumi.
"""

from __future__ import annotations

import re
from typing import Any

from infra.connection import Connection, reach_directly

GOOGLE = "https://artifactregistry.googleapis.com/v1/"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TIMEOUT_S = 30


class RegistryError(RuntimeError):
    """It cannot be told whether the image is there. Nothing was changed."""


def image_exists(image: str, connection: Connection) -> bool:
    """Whether `image` (REGION-docker.pkg.dev/PROJECT/REPOSITORY/NAME@sha256:...) is in its repository.

    Raises RegistryError where the registry neither shows it nor says that it is gone: an answer that was not understood
    must not end in a rebuild.
    """
    from google.auth.exceptions import GoogleAuthError
    from requests import RequestException

    reach_directly(connection)
    name = _document(image)
    try:
        answer = _session(connection).get(f"{connection.registry_url or GOOGLE}{name}", timeout=TIMEOUT_S)
    except (RequestException, GoogleAuthError) as error:
        raise RegistryError(_unknown(image, f"{type(error).__name__}: {error}")) from None
    if answer.status_code in (200, 404):
        return answer.status_code == 200
    said = f"Artifact Registry answered {answer.status_code}: {answer.text[:300].strip()}"
    raise RegistryError(_unknown(image, said))


def _document(image: str) -> str:
    match = re.fullmatch(r"([a-z0-9-]+)-docker\.pkg\.dev/([^/]+)/([^/]+)/(\S+@sha256:[0-9a-f]{64})", image)
    if not match:
        raise RegistryError(_unknown(image, "it is not an image of Artifact Registry by digest"))
    region, project, repository, name = match.groups()
    # A name may hold slashes, and an identifier may not.
    return f"projects/{project}/locations/{region}/repositories/{repository}/dockerImages/{name.replace('/', '%2F')}"


def _session(connection: Connection) -> Any:
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    credentials = connection.credentials(connection.registry_url)
    return AuthorizedSession(credentials or google.auth.default(scopes=[SCOPE])[0])


def _unknown(image: str, why: str) -> str:
    return (
        f"whether {image} is still in its repository cannot be told: {why}. Nothing was changed. Whoever refreshes "
        "needs roles/artifactregistry.reader on the repository; without --refresh it is not looked for."
    )
