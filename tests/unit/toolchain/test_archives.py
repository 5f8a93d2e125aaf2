"""A build's source archive is unpacked below its folder and nowhere else, with or without Python's own filter."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from localcloud.build import builder


def archive(*members: tarfile.TarInfo) -> tarfile.TarFile:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    packed.seek(0)
    return tarfile.open(fileobj=packed)


def member(name: str, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = 1
    for field, value in fields.items():
        setattr(info, field, value)
    return info


@pytest.fixture(params=["filter", "no filter"])
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of Python; 3.11.2, Debian 12's, is of the second."""
    if request.param == "no filter":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)


@pytest.mark.usefixtures("python")
def test_plain_files_are_unpacked(tmp_path: Path) -> None:
    builder._extract(archive(member("app/main.py")), tmp_path)
    assert (tmp_path / "app" / "main.py").read_text() == "x"


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize(
    "hostile",
    [
        member("../outside"),
        member("a/../../outside"),
        member("link", type=tarfile.SYMTYPE, linkname="../outside", size=0),
        member("pipe", type=tarfile.FIFOTYPE, size=0),
    ],
    ids=lambda hostile: hostile.name,
)
def test_nothing_leaves_the_folder(tmp_path: Path, hostile: tarfile.TarInfo) -> None:
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(tarfile.TarError):
        builder._extract(archive(hostile), target)
    assert not (tmp_path / "outside").exists()
