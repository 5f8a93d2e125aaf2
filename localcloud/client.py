"""Talks to a running local cloud's own API, and starts or stops one in the background."""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil

from localcloud import TREE
from localcloud.jsontypes import Json, obj
from localcloud.settings import DEFAULT_PORT, HOST, Settings

_START_LIMIT_S = 30.0
_STOP_LIMIT_S = 30.0
_POLL_S = 0.03
REFUSAL_PREFIX = "local cloud: "
"""Begins what the command says when it refuses."""


class LocalCloudError(RuntimeError):
    """The local cloud refused; the message is for the person who asked. Asking again gives the same answer."""


class NotRunningError(LocalCloudError):
    """No local cloud answers, or not in time: nothing was refused, and asking again can help."""


def ask(port: int, method: str, path: str, body: Json | None = None, timeout_s: float = 30.0) -> Json:
    """One request to `/_localcloud/...`.

    Raises:
        NotRunningError: nobody answers.
        LocalCloudError: the answer is a refusal, or another program's.
    """
    request = urllib.request.Request(  # the scheme is ours
        f"http://{HOST}:{port}/_localcloud/{path}",
        method=method,
        data=json.dumps(body or {}).encode() if method == "POST" else None,
        headers={"content-type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return obj(json.loads(answer.read()))
    except urllib.error.HTTPError as error:
        raise LocalCloudError(_refusal(error)) from error
    except TimeoutError as error:
        raise NotRunningError(
            f"The local cloud on {HOST}:{port} did not answer {method} {path} within {timeout_s:.0f} s; it may still "
            f"do it. Look at `gpujob local status{_port_option(port)}`, then give the same command again."
        ) from error
    except OSError as error:
        raise NotRunningError(
            f"The local cloud does not answer on {HOST}:{port}. Nothing was changed. Start it with "
            f"`gpujob local start{_port_option(port)}` (or `python -m localcloud start{_port_option(port)}`)."
        ) from error
    except (ValueError, http.client.HTTPException) as error:
        raise LocalCloudError(f"What answers on {HOST}:{port} is another program: its answer is no JSON.") from error


def _port_option(port: int) -> str:
    return "" if port == DEFAULT_PORT else f" --port {port}"


def _refusal(error: urllib.error.HTTPError) -> str:
    with contextlib.suppress(ValueError):
        message = obj(obj(json.loads(error.read())).get("error")).get("message")
        if message:
            return str(message)
    return f"Port {error.url} answers {error.code}: is that another program?"


def status(port: int) -> Json | None:
    """Who answers on the port; None when no local cloud does."""
    with contextlib.suppress(LocalCloudError):
        answer = ask(port, "GET", "status", timeout_s=5)
        return answer if "state_dir" in answer else None
    return None


def start(settings: Settings) -> Json:
    """Start a server in the background and wait until it answers; one that already serves this state is left alone.

    Raises:
        LocalCloudError: it ended instead; the message carries what it said.
    """
    running = serving(settings)
    if running:
        if settings.port not in (0, running["port"]):
            raise LocalCloudError(
                f"A local cloud (process {running['pid']}) already serves {settings.state_dir}, on port "
                f"{running['port']}, not {settings.port}. Use that port, or stop it first."
            )
        return {**running, "already_running": True}
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    with settings.server_log.open("ab") as log:
        before = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "localcloud.server", settings.to_json()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(TREE), os.environ.get("PYTHONPATH")]))},
        )
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        answer = serving(settings)
        if answer and answer["pid"] == process.pid:
            return answer
        time.sleep(_POLL_S)
    said = settings.server_log.read_bytes()[before:].decode(errors="replace").strip().removeprefix(REFUSAL_PREFIX)
    if process.poll() is None:
        process.terminate()
        raise LocalCloudError(
            f"The local cloud did not answer within {_START_LIMIT_S:.0f} s and was ended. It said:\n{said}"
        )
    raise LocalCloudError(said or f"The local cloud ended with code {process.returncode} and said nothing.")


def serving(settings: Settings) -> Json | None:
    """The status of the server that owns this state directory; None when there is none."""
    try:
        known = obj(json.loads(settings.server_file.read_text()))
    except (OSError, ValueError):
        return None
    answer = status(int(known["port"]))
    if answer and Path(answer["state_dir"]) == settings.state_dir.resolve():
        return answer
    return None


def stop(port: int) -> None:
    """Stop the server on this port and wait until it is gone.

    Raises:
        LocalCloudError: none answers, or it does not end.
    """
    pid = int(ask(port, "GET", "status")["pid"])
    ask(port, "POST", "stop")
    deadline = time.monotonic() + _STOP_LIMIT_S
    while time.monotonic() < deadline:
        if not _alive(pid):
            return
        time.sleep(_POLL_S)
    raise LocalCloudError(
        f"The local cloud (process {pid}) is still ending after {_STOP_LIMIT_S:.0f} s. `kill -9 {pid}` is safe: "
        "its state is on disk."
    )


def _alive(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # where it was started by this very process
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE  # whoever adopted it may never collect it
    except psutil.NoSuchProcess:
        return False
