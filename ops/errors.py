"""The ways in which a `gpujob` command may end without success, one exception type and exit code each."""

from typing import ClassVar


class OpsError(Exception):
    """An expected failure. Its text says what happened, to which object, what is safe and what to do next."""

    exit_code: ClassVar[int]
    meaning: ClassVar[str]
    """Of the exit code, as `gpujob --help` and docs/operate.md give it."""


class NotSucceededError(OpsError):
    """What was waited for or looked at did not come out as it should: an execution, a rehearsal, a clean project."""

    exit_code = 1
    meaning = (
        "`run --wait`: the execution failed or was cancelled; `rehearse`: a promise was broken; "
        "`leftovers`: something is left; `checkpoints`: one is damaged"
    )


class MisconfiguredError(OpsError):
    """No stack, no outputs, no credentials or a wrong argument: the cloud was not asked for anything."""

    exit_code = 2
    meaning = "wrong use, no stack, no outputs, no credentials: the cloud was not asked for anything"


class RefusedError(OpsError):
    """The cloud, or `gpujob` on its behalf, refused: asking again without changing something gives the same answer."""

    exit_code = 3
    meaning = "refused, or no such object: asking again gives the same answer"


class MissingError(RefusedError):
    """The object that the command is about does not exist."""


class UnreachableError(OpsError):
    """The service did not answer, or answered that it cannot now: asking again may help."""

    exit_code = 4
    meaning = 'no answer, or "not now": try again'
