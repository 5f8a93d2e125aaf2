"""`gpujob promote dev prod`: pins in one stack's file the image that another stack has proved. Changes that one line.

Nothing is deployed: the change is a change of a file, to be reviewed and then previewed like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import yaml

from infra.stack_file import StackFileError, configuration
from ops.errors import MisconfiguredError, RefusedError
from ops.stack import read_output, tree

KEY = "gpujob:image"
_BY_DIGEST = re.compile(r"[^\s:@]+(:[0-9]+/[^\s:@]+)?@sha256:[0-9a-f]{64}")


def promote(image: str, source: str, stack_file: Path, say: Callable[[str], None]) -> bool:
    """Write `image`, the output of stack `source`, into `stack_file`. False where it is there already.

    Raises:
        RefusedError: the image is not known by digest, so tomorrow it could be another one.
        MisconfiguredError: the file cannot be edited without risk to what else it says.
    """
    if not _BY_DIGEST.fullmatch(image):
        raise RefusedError(
            f"Stack {source} runs {image or 'no image'}, which is not known by digest: the name could mean another one "
            f"tomorrow. {stack_file.name} was not changed. Run `pulumi up` on {source}, then promote again."
        )
    before = _image_in(stack_file)
    say(f"{stack_file.name}, {KEY}")
    say(f"  before: {before or '(built by the stack itself)'}")
    say(f"  after:  {image}")
    if before == image:
        say("Nothing to change.")
        return False
    _write(stack_file, with_image(stack_file.read_text(), image), image)
    say(_what_next(image, stack_file))
    return True


def promote_between(source: str, target: str, say: Callable[[str], None]) -> bool:
    """Pin the image that stack `source` runs in the file of stack `target`."""
    return promote(read_output(source, "image"), source, stack_file(target), say)


def stack_file(stack: str) -> Path:
    """The file of a stack, by its short or its full name (ORGANISATION/PROJECT/STACK)."""
    return tree() / f"Pulumi.{stack.rpartition('/')[2]}.yaml"


def with_image(text: str, image: str) -> str:
    """The stack file's text with that image: its line replaced, or added as the last of `config:`.

    All else stays. Without a line of its own for `config:` nothing is changed.
    """
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if re.match(r"config:\s*(#.*)?$", line)), None)
    if start is None:
        return text
    end = start + 1
    last, indent = start, "  "
    while end < len(lines) and re.match(r"\s|#|$", lines[end]):
        if re.match(r"\s+[^\s#]", lines[end]):
            if last == start:
                indent = re.match(r"\s+", lines[end])[0]  # type: ignore[index] - matched a line ago
            last = end
        end += 1
    for number in range(start + 1, end):
        found = re.match(
            rf"(\s+)(['\"]?){re.escape(KEY)}\2\s*:(?P<value>[^#\n]*)(?P<comment>#[^\n]*)?\n?$", lines[number]
        )
        if found:
            comment = f"  {found['comment']}" if found["comment"] else ""
            lines[number] = f"{found[1]}{KEY}: {image}{comment}\n"
            return "".join(lines)
    if not lines[last].endswith("\n"):
        lines[last] += "\n"
    lines.insert(last + 1, f"{indent}{KEY}: {image}\n")
    return "".join(lines)


def _image_in(stack_file: Path) -> str:
    try:
        return str(configuration(stack_file).get(KEY) or "")
    except StackFileError as error:
        raise MisconfiguredError(f"{error} Nothing was changed.") from None


def _write(stack_file: Path, new: str, image: str) -> None:
    """Write, if the image is all that the new text says otherwise."""
    expected = {**configuration(stack_file), KEY: image}
    try:
        right: bool = yaml.safe_load(new)["config"] == expected
    except yaml.YAMLError:
        right = False
    if not right:
        raise MisconfiguredError(
            f"{stack_file} is written in a way that cannot be edited line by line, and was left as it was. "
            f"Set it yourself: pulumi config set {KEY} {image}"
        )
    stack_file.write_text(new)


def _what_next(image: str, stack_file: Path) -> str:
    stack = stack_file.name.removeprefix("Pulumi.").removesuffix(".yaml")
    lines = [f"Next: pulumi preview -s {stack}, then pulumi up -s {stack}."]
    found = re.fullmatch(r"([a-z0-9-]+)-docker\.pkg\.dev/([^/]+)/([^/]+)/(\S+)@(sha256:[0-9a-f]{64})", image)
    if found:
        tagged = f"{image.split('@', maxsplit=1)[0]}:promoted-{stack}"
        lines += [
            "The repository forgets old images unless they are tagged. Keep this one:",
            f"  gcloud artifacts docker tags add {image} {tagged}",
            f"If {stack} is in another project, its Cloud Run agent must be among gpujob:imageReaders of the "
            "repository's stack.",
        ]
    return "\n".join(lines)
