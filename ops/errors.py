"""The ways in which a `gpujob` command may end without success, one exception type and exit code each."""

from typing import ClassVar


class OpsError(Exception):
    """An expected failure. Its text says what happened, to which object, what is safe and what to do next."""

    exit_code: ClassVar[int]


class NotSucceededError(OpsError):
    """The execution that was waited for failed or was cancelled."""

    exit_code = 1


class MisconfiguredError(OpsError):
    """No stack, no outputs, no credentials or a wrong argument: the cloud was not asked for anything."""

    exit_code = 2


class RefusedError(OpsError):
    """The cloud, or `gpujob` on its behalf, refused: asking again without changing something gives the same answer."""

    exit_code = 3


class MissingError(RefusedError):
    """The object that the command is about does not exist."""


class UnreachableError(OpsError):
    """The service did not answer, or answered that it cannot now: asking again may help."""

    exit_code = 4
