"""What the checkpoint engine and storage raise, as the errors that commands end with."""

import errno
from collections.abc import Generator
from contextlib import contextmanager

from ops.errors import MissingError, RefusedError, UnreachableError

_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}


@contextmanager
def telling(where: str) -> Generator[None]:
    """Within it, errors of storage and engine become those of `ops.errors`; `where` is what was looked at."""
    from app.contract import Refusal, TaskError

    try:
        yield
    except OSError as error:
        about = f"{where} cannot be used: {error.strerror or error}"
        about += f" ({error.filename})." if error.filename and str(error.filename) != where else "."
        if error.errno in _FORBIDDEN:
            raise RefusedError(f"{about} Nothing more was done. Use an account that may do this there.") from error
        if error.errno in _ABSENT:
            raise MissingError(f"{about} Nothing more was done. Check the path.") from error
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise RefusedError(f"{about} Checkpoints are safe. Make room and try again.") from error
        raise UnreachableError(f"{about} Checkpoints are safe. Try again.") from error
    except Refusal as error:
        raise RefusedError(str(error)) from error
    except TaskError as error:
        raise UnreachableError(str(error)) from error
