"""A large object on a disk is written past the page cache, as far as that goes."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from pathlib import Path

import pytest

from app.checkpoint.storage.directory import STAGING, DirectoryStore
from app.checkpoint.storage.medium import Medium
from app.checkpoint.storage.store import Written, read


class TestPastThePageCache:
    """Blocks in whole pages are written with O_DIRECT; whatever cannot be goes the ordinary way."""

    @pytest.fixture
    def disk(self, tmp_path) -> DirectoryStore:
        return DirectoryStore(tmp_path, Medium.DISK)

    def block(self, size: int) -> memoryview:
        memory = memoryview(mmap.mmap(-1, size))
        memory[:] = os.urandom(size)
        return memory

    @pytest.fixture
    def flags(self, monkeypatch) -> list[bool]:
        """For each write whether it went past the page cache."""
        seen: list[bool] = []
        write = os.write

        def noting(fd: int, data: memoryview) -> int:
            seen.append(bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT))
            return write(fd, data)

        monkeypatch.setattr(os, "write", noting)
        return seen

    @pytest.mark.parametrize("tail", [0, 1, 4095, 4096, 5000])
    def test_a_file_of_any_length_holds_what_was_written_and_no_more(self, disk, tail):
        blocks = [self.block(2**20), self.block(2**20)[: 300_000 + tail]]
        assert disk.create("shards/a/000", iter(blocks)) == Written(2**20 + 300_000 + tail)
        assert read(disk, "shards/a/000") == b"".join(blocks)

    @pytest.mark.parametrize("sizes", [[2**20, 5, 2**20], [2**20, 4096, 7, 7], [5, 2**20], [2**20, 0, 3]])
    def test_pieces_of_odd_lengths_come_out_in_order(self, disk, sizes):
        pieces = [self.block(max(size, 1))[:size] for size in sizes]
        disk.create("shards/a/000", iter(pieces))
        assert read(disk, "shards/a/000") == b"".join(pieces)

    def test_memory_that_is_not_aligned_or_not_writable_goes_through_the_cache(self, disk):
        for number, piece in enumerate([self.block(2**20)[7:], memoryview(bytes(2**20))]):
            disk.create(f"shards/a/{number}", [piece])
            assert read(disk, f"shards/a/{number}") == bytes(piece)

    def test_a_file_system_that_refuses_it_at_opening_gets_an_ordinary_write(self, disk, monkeypatch, flags):
        opening = os.open

        def refusing(path: Path, mode: int, *rest: int) -> int:
            if mode & os.O_DIRECT:
                raise OSError(errno.EINVAL, "Invalid argument")
            return opening(path, mode, *rest)

        monkeypatch.setattr(os, "open", refusing)
        piece = self.block(2**20)
        disk.create("shards/a/000", [piece])
        assert read(disk, "shards/a/000") == piece
        assert not any(flags)

    @pytest.mark.parametrize("number", [errno.EINVAL, errno.EFAULT])
    @pytest.mark.parametrize("refused", [0, 1, 2, 3])
    def test_one_that_refuses_it_at_a_write_gets_the_rest_the_ordinary_way(self, disk, monkeypatch, refused, number):
        write = os.write
        calls: list[int] = []

        def refusing(fd: int, data: memoryview) -> int:
            direct = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT
            calls.append(direct)
            if direct and len(calls) > refused:
                raise OSError(number, "Not this memory")
            return write(fd, data)

        monkeypatch.setattr(os, "write", refusing)
        pieces = [self.block(2**20), self.block(2**20), self.block(2**20)[:999]]
        assert disk.create("shards/a/000", iter(pieces)).size_bytes == 2**21 + 999
        assert read(disk, "shards/a/000") == b"".join(pieces)

    @pytest.mark.parametrize("at_most", [512, 4096, 5000, 100_000])
    def test_short_writes_are_gone_on_with(self, disk, monkeypatch, at_most):
        write = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:at_most]))
        pieces = [self.block(2**19), self.block(2**18)[:70_001]]
        disk.create("shards/a/000", iter(pieces))
        assert read(disk, "shards/a/000") == b"".join(pieces)

    def test_other_errors_are_told(self, disk, monkeypatch):
        def full(_fd: int, _data: memoryview) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            disk.create("shards/a/000", [self.block(2**20)])

    def test_a_mount_never_gets_it(self, tmp_path, flags):
        DirectoryStore(tmp_path, Medium.MOUNT).create("shards/a/000", [self.block(2**20)])
        assert flags == [False]

    def test_what_cannot_be_synced_is_not_published(self, disk, monkeypatch):
        disk.create("shards/a/000", [self.block(2**20)])
        fsync = os.fsync

        def failing(fd: int) -> None:
            if Path(f"/proc/self/fd/{fd}").readlink().name == "000":
                raise OSError(errno.EIO, "lost")
            fsync(fd)

        monkeypatch.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match="lost"):
            disk.publish("checkpoints/a.json", b"{}")
        assert disk.list("checkpoints/") == []
        assert list((disk.root / STAGING).iterdir()) == []

    def test_no_descriptor_stays_open_after_a_commit_or_a_save_that_is_cleared_away(self, disk):
        before = len(list(Path("/proc/self/fd").iterdir()))
        disk.create("shards/a/000", [self.block(2**20)])
        disk.publish("checkpoints/a.json", b"{}")
        disk.create("shards/b/000", [self.block(2**20)])
        disk.delete("shards/b/000")
        assert len(list(Path("/proc/self/fd").iterdir())) == before
