"""Whether a copy of the state fits into memory beside the program, looked at before the memory is asked for.

Passing the limit of a container's control group ends the process by SIGKILL: no save, no error, and the next attempt
would do the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import logs
from app.checkpoint.host_memory import available_bytes
from app.checkpoint.storage.directory import DirectoryStore
from app.checkpoint.storage.medium import Medium
from app.checkpoint.storage.store import PARALLEL

if TYPE_CHECKING:
    from app.checkpoint.storage.store import Store

MOUNT_FILE_BYTES = 96 * 2**20
"""What a mounted bucket takes for a file that is being written."""
SPARE_BYTES = 64 * 2**20
"""For the writer's blocks and the manifest."""


def staging_fits(new_bytes: int, *, on_mount: bool, quiet: bool = False) -> bool:
    """Whether so many more bytes do; unless `quiet` the log says why. True where nothing tells what is available."""
    available = available_bytes()
    mount = PARALLEL * MOUNT_FILE_BYTES if on_mount else 0
    needed = new_bytes + mount + SPARE_BYTES
    fits = available is None or needed <= available
    if quiet:
        return fits
    files = f", and {mount / 1e6:.0f} MB for files on the mount" if mount else ""
    left = "an unknown amount" if available is None else f"{available / 1e6:.0f} MB"
    numbers = f"Staging for snapshots takes {new_bytes / 1e6:.0f} MB more{files}; {left} of memory can still be had"
    fields = {"staging_bytes": new_bytes, "mount_bytes": mount, "available_bytes": available}
    if fits:
        logs.info(f"{numbers}.", **fields)
    else:
        logs.warning(f"{numbers}: saves are streamed from the live tensors instead.", **fields)
    return fits


def is_mount(store: Store) -> bool:
    """Whether files that are written there take memory of this container."""
    return isinstance(store, DirectoryStore) and store.medium is Medium.MOUNT
