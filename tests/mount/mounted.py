"""A bucket in fake-gcs-server, mounted by the real gcsfuse with the job's own options."""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from localcloud import launch
from localcloud.toolchain.gcsfuse import find_gcsfuse

if TYPE_CHECKING:
    from collections.abc import Generator

EMULATED = ("--anonymous-access", "--enable-hns=false", "--enable-atomic-rename-object=false")
"""What the emulator asks for."""
JOB = (
    "--implicit-dirs",
    "--metadata-cache-ttl-secs=0",
    "--metadata-cache-negative-ttl-secs=0",
    "--log-severity=warning",
)


class NotMounted(Exception):  # noqa: N818
    """Mounting is not permitted here, or gcsfuse does not start: what it said."""


@contextmanager
def mounted(url: str, bucket: str, where: Path) -> Generator[Path]:
    """`where`, an empty directory, as the bucket. Ends with this process if that is killed."""
    gcsfuse = find_gcsfuse()
    assert gcsfuse
    log = where.with_suffix(".log")
    endpoint = f"{url}/storage/v1/"
    command = [str(gcsfuse), "--foreground", "--custom-endpoint", endpoint, *EMULATED, *JOB, bucket, str(where)]
    with log.open("wb") as output:
        process = subprocess.Popen(launch.command(command), stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 30
        while not where.is_mount():
            if process.poll() is not None or time.monotonic() > deadline:
                raise NotMounted(log.read_text(errors="replace")[-1000:] or "gcsfuse said nothing")
            time.sleep(0.01)
        yield where
    finally:
        subprocess.run(["fusermount3", "-u", "-z", str(where)], check=False, capture_output=True)
        process.terminate()
        process.wait(timeout=30)
