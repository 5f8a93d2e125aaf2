"""Who asks: on this machine's loopback nobody in particular, elsewhere whoever Google's clients find by themselves."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from google.auth.credentials import AnonymousCredentials


def anonymous_if_local(url: str) -> "AnonymousCredentials | None":
    """For an endpoint over plain http, which `ops.stack.check_endpoint` allows on loopback only; None elsewhere."""
    if urlsplit(url).scheme != "http":
        return None
    from google.auth.credentials import AnonymousCredentials

    return AnonymousCredentials()
