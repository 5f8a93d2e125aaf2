"""Turns itself into a program that dies with the server, in the memory groups and with the mounts that were asked for.

Run as a plain file (`python -I -S launch.py SPEC PROGRAM ARGS...`, see `command`), so it may import the standard
library only. SPEC is JSON: `parent` (process id of the server), `groups` (cgroup.procs files), `binds`
([[source, target], ...], mounted read-only). A launcher rather than code between fork and exec, because the server has
threads.
"""

import ctypes
import json
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_CLONE_NEWNS = 0x00020000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18


def command(program: list[str], *, groups: tuple[str, ...] = (), binds: tuple[tuple[str, str], ...] = ()) -> list[str]:
    """What to start for `program` to run tied to the process that calls this."""
    spec = json.dumps({"parent": os.getpid(), "groups": groups, "binds": binds})
    return [sys.executable, "-I", "-S", __file__, spec, *program]


def main() -> None:
    """Prepare this process and replace it by the program; 127 where that cannot be done, with the reason on stderr."""
    spec, program = json.loads(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != spec["parent"]:
            sys.exit(127)  # the server died before this process was tied to it
        for group in spec["groups"]:
            with open(group, "w") as procs:  # noqa: PTH123  # pathlib costs this short-lived process 10 ms
                procs.write("0")
        if spec["binds"]:
            _bind_read_only(libc, spec["binds"])
    try:
        os.execvpe(program[0], program, os.environ)  # noqa: S606  # a list of arguments, no shell
    except OSError as error:
        sys.stderr.write(f"exec: {program[0]!r}: {error.strerror}\n")
        sys.exit(127)


def _bind_read_only(libc: ctypes.CDLL, binds: list[list[str]]) -> None:
    """Mount each source at its target, read-only, in a mount namespace of this process alone."""

    def call(result: int, what: str) -> None:
        if result != 0:
            reason = os.strerror(ctypes.get_errno())
            sys.stderr.write(f"A read-only mount is not possible here: {what}: {reason}. The mount stays writable.\n")
            raise OSError(reason)

    try:
        call(libc.unshare(_CLONE_NEWNS), "unshare")
        call(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "private mounts")
        for source, target in binds:
            call(libc.mount(source.encode(), target.encode(), None, _MS_BIND | _MS_REC, None), f"bind {target}")
            call(libc.mount(None, target.encode(), None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY, None), f"bind {target}")
    except OSError:
        for source, target in binds:
            if os.path.isdir(target) and not os.path.ismount(target):  # noqa: PTH112  # see above
                os.rmdir(target)  # noqa: PTH106
                os.symlink(source, target)  # noqa: PTH211


if __name__ == "__main__":
    main()
