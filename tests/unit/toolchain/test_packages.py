"""The pinned requirements, and what set-up does with them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from localcloud import TREE
from localcloud.toolchain import packages, steps

REQUIREMENTS = TREE / "requirements"
COMPILED = sorted(REQUIREMENTS.glob("*.txt"))


@pytest.mark.parametrize("path", COMPILED, ids=lambda path: path.name)
def test_every_requirement_is_pinned_with_a_hash(path: Path) -> None:
    logical = path.read_text().replace("\\\n", " ")
    pins = [line for line in logical.splitlines() if line and not line.lstrip().startswith("#")]
    assert pins
    for pin in pins:
        assert re.match(r"^[a-z0-9._-]+(\[[a-z0-9,_-]+\])?==\S+", pin), pin
        assert "--hash=sha256:" in pin, pin


@pytest.mark.parametrize("path", sorted(REQUIREMENTS.iterdir()), ids=lambda path: path.name)
def test_no_requirement_names_an_index(path: Path) -> None:
    assert not re.search(r"--(extra-)?index-url|--find-links|https?://", path.read_text())


def pins(name: str) -> set[tuple[str, str]]:
    """Package and version of every pin in a compiled file; a package may have several, by Python's version."""
    return set(re.findall(r"^([a-z0-9._-]+)==(\S+)", (REQUIREMENTS / name).read_text(), re.MULTILINE))


def test_worker_and_infra_pin_what_dev_pins() -> None:
    assert pins("worker.txt") <= pins("dev.txt")
    assert pins("infra.txt") <= pins("dev.txt")


def test_the_benchmarks_measure_the_versions_that_are_tested() -> None:
    tested = {package for package, _ in pins("dev.txt")}
    shared = {(package, version) for package, version in pins("bench.txt") if package in tested}
    assert {"torch", "numpy", "crc32c"} <= {package for package, _ in shared}
    assert shared <= pins("dev.txt")


def test_make_requirements_pins_every_file_after_the_one_it_is_constrained_by() -> None:
    names = [name for name, _ in packages.PINNED_IN_ORDER]
    assert sorted(names) == sorted(path.stem for path in REQUIREMENTS.glob("*.in"))
    assert sorted(names) == [path.stem for path in COMPILED]
    for at, (_, constraint) in enumerate(packages.PINNED_IN_ORDER):
        assert constraint is None or constraint.removesuffix(".txt") in names[:at]


def test_the_cpu_set_leaves_out_torch_and_cuda_and_nothing_else(tmp_path: Path) -> None:
    trimmed, torch = packages._without_cuda(REQUIREMENTS / "worker.txt", tmp_path / "cpu.txt")
    assert torch.startswith("torch==")
    names = re.findall(r"^([a-z0-9._-]+)==", trimmed.read_text(), re.MULTILINE)
    assert {"numpy", "crc32c", "google-cloud-storage"} <= set(names)
    assert not [name for name in names if name.startswith(("nvidia", "cuda", "torch", "triton"))]


def test_a_command_that_fails_shows_the_end_of_its_output_and_where_the_rest_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(steps.SetupError) as raised:
        steps.run(["sh", "-c", "echo first; echo no route to index; exit 3"], log=log)
    assert "ended with 3" in str(raised.value)
    assert "no route to index" in str(raised.value)
    assert str(log) in str(raised.value)


def test_a_refused_download_says_what_is_safe_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\necho 'error: could not connect'; exit 2\n")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{uv.parent}:/usr/bin:/bin")
    (tmp_path / "pyproject.toml").write_text("[project]\nname='x'\n")
    (tmp_path / "dev.txt").write_text("a==1 --hash=sha256:00\n")
    with pytest.raises(steps.SetupError) as raised:
        packages.install_packages(tmp_path, tmp_path / "dev.txt", cpu_torch=False)
    assert "could not connect" in str(raised.value)
    assert "run `make setup` once where it is not" in str(raised.value)
