"""`gpujob local`: the local cloud's own commands, and the environment in which `pulumi` works against it."""

import os
import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ops.errors import MisconfiguredError
from ops.reporting import reported

DEFAULT_PORT = 8790


class LocalGroup(TyperGroup):
    """Its commands are `env` and those of `localcloud.cli`, which is imported only when one of them is wanted."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 (the group's own signature)
        return [*self.commands, *self._mounted()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 (the group's own signature)
        return self.commands.get(cmd_name) or self._mounted().get(cmd_name)

    def _mounted(self) -> Mapping[str, Any]:
        with reported():
            try:
                from localcloud.cli import app as localcloud_app
            except ModuleNotFoundError as error:
                raise MisconfiguredError(
                    f"The local cloud cannot be loaded, since {error.name} is not installed. Nothing was changed. "
                    "Run `make setup`; the real cloud needs none of it."
                ) from error
        group = typer.main.get_command(localcloud_app)
        return group.commands if isinstance(group, TyperGroup) else {}


app = typer.Typer(
    cls=LocalGroup, no_args_is_help=True, help="The local cloud: Google Cloud on this machine, for rehearsals."
)


@app.callback()
def local() -> None:
    """The local cloud: Google Cloud on this machine, for rehearsals."""


@app.command()
def env(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the local cloud.")] = DEFAULT_PORT,
) -> None:
    """Print exports for `pulumi` on the local stack: eval "$(gpujob local env)"."""
    from localcloud.toolchain.environment import local_environment
    from localcloud.toolchain.steps import SetupError
    from ops.stack import tree

    with reported():
        try:
            environment = {**local_environment(tree(), port), "GPUJOB_STACK": "local"}
        except SetupError as error:
            raise MisconfiguredError(f"No environment for the local stack: {error}") from error
        for line in export_lines(environment, os.environ):
            typer.echo(line)


def export_lines(environment: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Shell lines; what comes before the present PATH is put before `$PATH`, so that loading them later works too."""
    lines: list[str] = []
    for name, value in environment.items():
        path = current.get("PATH", "")
        if name == "PATH" and path and value.endswith(f"{os.pathsep}{path}"):
            front = value.removesuffix(f"{os.pathsep}{path}")
            lines.append(f'export PATH={shlex.quote(front)}{os.pathsep}"$PATH"')
        else:
            lines.append(f"export {name}={shlex.quote(value)}")
    return lines
