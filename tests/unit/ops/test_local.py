"""`gpujob local`: the local cloud's own commands beside `env`, whose lines a shell can load, now and later."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer
from typer.testing import CliRunner

import localcloud.toolchain.environment
import ops.cli
from localcloud.toolchain.steps import SetupError
from ops.local import export_lines


@pytest.fixture
def gpujob(monkeypatch: pytest.MonkeyPatch):
    """The command line with a local cloud that has two commands."""
    app, module = typer.Typer(), ModuleType("localcloud.cli")

    @app.command()
    def start(port: int = 8790) -> None:
        typer.echo(f"started at {port}")

    @app.command()
    def stop() -> None: ...

    module.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "localcloud.cli", module)
    return lambda *arguments: CliRunner().invoke(ops.cli.app, list(arguments), env={"TERM": "dumb"})


def test_the_local_clouds_commands_stand_beside_env(gpujob):
    said = gpujob("local", "--help").output
    assert [name for name in ("env", "start", "stop") if name not in said] == []
    assert gpujob("local", "start", "--port", "8888").output == "started at 8888\n"
    assert gpujob("local", "sotp").exit_code == 2


def test_a_machine_without_the_local_clouds_packages_is_told_how_to_get_them(gpujob, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "localcloud.cli", None)
    done = gpujob("local", "start")
    assert (done.exit_code, "make setup" in done.stderr) == (2, True)
    assert gpujob("status", "--help").exit_code == 0


def test_env_prints_the_toolchains_environment_and_the_stacks_name(
    gpujob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def environment(tree: Path, port: int) -> dict[str, str]:
        return {"PULUMI_HOME": str(tree / "home"), "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}"}

    (tmp_path / "Pulumi.yaml").write_text("name: gpujob\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(localcloud.toolchain.environment, "local_environment", environment)
    assert gpujob("local", "env", "--port", "8888").stdout.splitlines() == [
        f"export PULUMI_HOME={tmp_path}/home",
        "export STORAGE_EMULATOR_HOST=http://127.0.0.1:8888",
        "export GPUJOB_STACK=local",
    ]


def test_env_without_pulumi_prints_nothing_to_load_and_says_why(gpujob, monkeypatch: pytest.MonkeyPatch):
    def environment(tree: Path, port: int) -> dict[str, str]:
        raise SetupError("there is no Pulumi CLI on PATH or in the cache. Run `make setup` first.")

    monkeypatch.setattr(localcloud.toolchain.environment, "local_environment", environment)
    done = gpujob("local", "env")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "make setup" in done.stderr


def test_a_shell_that_loads_the_lines_has_the_values():
    environment = {"PATH": "/tool chain/bin:/venv/bin:/usr/bin:/bin", "PULUMI_BACKEND_URL": "file:///a b/$HOME/'state'"}
    script = "\n".join(
        [*export_lines(environment, {"PATH": "/usr/bin:/bin"}), 'echo "$PATH"', 'echo "$PULUMI_BACKEND_URL"']
    )
    done = subprocess.run(
        ["sh", "-c", script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == list(environment.values())


def test_loading_them_later_keeps_what_path_has_become():
    lines = export_lines({"PATH": f"/tools{os.pathsep}/bin"}, {"PATH": "/bin"})
    assert lines == ['export PATH=/tools:"$PATH"']


def test_a_path_of_its_own_is_given_whole():
    assert export_lines({"PATH": "/only"}, {"PATH": "/bin"}) == ["export PATH=/only"]
