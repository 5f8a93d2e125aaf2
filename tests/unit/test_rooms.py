"""Who may import whom: the rooms of this project stay apart, so that each can be read, run and shipped alone."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {"app", "bootstrap", "infra", "ops", "localcloud"}

FORBIDDEN = {
    "app": {"bootstrap", "infra", "ops", "localcloud", "pulumi", "pulumi_gcp"},
    "bootstrap": {"app", "ops", "localcloud", "torch"},
    "infra": {"app", "bootstrap", "ops", "localcloud", "torch"},
    "localcloud": {"app", "bootstrap", "infra", "ops"},
    "ops": set(),
}
"""`ops` is the one that may see the others; even there only the pure modules below."""

OPS_MAY_IMPORT = (
    *("app.checkpoint", "app.contract", "app.ledger"),
    *("infra.accelerators", "infra.exposure", "infra.ownership", "infra.settings", "infra.stack_file"),
    "localcloud",
)


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Full names of what a file imports, at any depth; relative ones are of its own room."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@pytest.mark.parametrize("room", sorted(FORBIDDEN))
def test_a_room_imports_none_of_the_rooms_that_it_must_not_know(room):
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules(room)
        for name in imports(path)
        if name.split(".")[0] in FORBIDDEN[room]
    }
    assert not wrong


def test_ops_uses_only_the_readers_and_pure_modules_of_other_rooms():
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules("ops")
        for name in imports(path)
        if name.split(".")[0] in OURS - {"ops"} and not name.startswith(OPS_MAY_IMPORT)
    }
    assert not wrong


def absent(name: str, module: str) -> bool:
    """Whether `from module import name` can only fail."""
    path = ROOT / module.replace(".", "/")
    if (path / name).is_dir() or (path / f"{name}.py").is_file():
        return False
    plain = path.with_suffix(".py")
    source = plain if plain.is_file() else path / "__init__.py"
    bound = set[str]()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            bound.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    return name not in bound


@pytest.mark.parametrize("room", sorted(OURS))
def test_whatever_is_imported_from_our_own_modules_is_there_also_inside_functions(room):
    lost = {
        f"{path.relative_to(ROOT)}: from {node.module} import {alias.name}"
        for path in modules(room)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0 and node.module.split(".")[0] in OURS
        for alias in node.names
        if absent(alias.name, node.module)
    }
    assert not lost


def test_the_program_is_a_table_of_contents_without_logic():
    text = (ROOT / "__main__.py").read_text()
    assert len(text.splitlines()) <= 60
    logic = (ast.If, ast.IfExp, ast.While, ast.FunctionDef, ast.ClassDef, ast.Try, ast.Lambda, ast.comprehension)
    assert not [node for node in ast.walk(ast.parse(text)) if isinstance(node, logic)]


PURE = [
    *("accelerators", "access_rules", "context", "cost_line", "cost_rules", "exposure", "job_fields", "mount_rules"),
    *("mounts", "names", "problems", "reference", "reference_text", "rules", "secret_versions", "settings"),
    *("stack_file", "values", "keys/cost", "keys/image", "keys/job", "keys/names", "keys/security", "keys/storage"),
]


@pytest.mark.parametrize("name", PURE)
def test_a_pure_module_of_infra_can_be_imported_without_pulumi(name):
    tree = ast.parse((ROOT / "infra" / f"{name}.py").read_text())
    top_level = {
        alias.name if isinstance(node, ast.Import) else str(node.module)
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not {module for module in top_level if module.split(".")[0].startswith("pulumi")}


@pytest.mark.parametrize("room", sorted(OURS))
def test_every_room_is_there_and_a_checker_that_finds_nothing_to_check_would_fail(room):
    assert modules(room)
