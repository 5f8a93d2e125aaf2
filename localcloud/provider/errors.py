"""What can go wrong between the engine and the API, one exception a reason."""

from __future__ import annotations


class ProviderError(Exception):
    """Base: its text is shown to the user as it is."""


class Refused(ProviderError):  # noqa: N818 - reads as what happened
    """The plugin will not do this; nothing was sent."""


class Unreachable(ProviderError):  # noqa: N818
    """Nothing answers at the endpoint."""


class Unfinished(ProviderError):  # noqa: N818
    """The API accepted the change, but its end was not seen: the object may exist."""


class ApiError(ProviderError):
    """The API answered with an error."""

    def __init__(self, code: int, status: str, message: str, method: str, path: str) -> None:
        self.code = code
        """HTTP status."""
        self.message = message
        """Google's own words."""
        super().__init__(f"HTTP {code}{f' {status}' if status else ''}: {message} ({method} {path})")
