"""What a process may still ask for is the least of what the machine and its control groups leave."""

from __future__ import annotations

import pytest

from app.checkpoint.host_memory import available_bytes

GIB = 2**30


@pytest.fixture
def system(tmp_path):
    """Writes files below a directory that stands for `/`."""

    def write(**files: str):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


MACHINE = {"proc/meminfo": f"MemTotal: {64 * 2**20} kB\nMemAvailable:   {8 * 2**20} kB\n"}


def test_without_control_groups_it_is_what_the_machine_has_left(system):
    assert available_bytes(system(**MACHINE)) == 8 * GIB


def test_where_nothing_tells_the_answer_is_none(tmp_path):
    assert available_bytes(tmp_path) is None


def group(folder: str, limit: object, usage: int, cache: int, names: tuple[str, str, str]) -> dict[str, str]:
    """A group's files by the names of its version."""
    root = f"sys/fs/cgroup/{folder}"
    stat = f"anon 5\n{names[2]}inactive_file {cache}\n{names[2]}active_file 1\nshmem 7\n"
    return {f"{root}/{names[0]}": f"{limit}\n", f"{root}/{names[1]}": f"{usage}\n", f"{root}/memory.stat": stat}


V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
V2 = ("memory.max", "memory.current", "")


@pytest.mark.parametrize(
    ("lines", "folder", "names"),
    [("0::/job\n", "job", V2), ("5:cpu:/job\n4:blkio,memory:/job\n", "memory/job", V1)],
    ids=["version 2", "version 1"],
)
def test_a_groups_limit_counts_less_what_it_uses_beyond_file_cache(system, lines, folder, names):
    files = group(folder, 4 * GIB, 3 * GIB, GIB - 1, names)
    assert available_bytes(system(**MACHINE, **files, **{"proc/self/cgroup": lines})) == 2 * GIB


def test_a_group_above_may_be_the_narrower_one(system):
    files = group("a", GIB, 0, -1 + GIB // 2, V2) | group("a/b", 4 * GIB, 0, 0, V2)
    found = available_bytes(system(**MACHINE, **files, **{"proc/self/cgroup": "0::/a/b\n"}))
    assert found == GIB + GIB // 2


def test_in_a_container_that_sees_only_the_end_of_its_path_the_root_is_its_group(system):
    files = group("memory", 2 * GIB, GIB, -1, V1)
    assert available_bytes(system(**MACHINE, **files, **{"proc/self/cgroup": "4:memory:/docker/0123\n"})) == GIB


@pytest.mark.parametrize(("names", "folder", "limit"), [(V2, "", "max"), (V1, "memory", 2**63 - 4096)])
def test_a_group_without_a_limit_leaves_it_to_the_machine(system, names, folder, limit):
    files = group(folder, limit, 3 * GIB, 0, names)
    lines = "0::/\n" if names is V2 else "4:memory:/\n"
    assert available_bytes(system(**MACHINE, **files, **{"proc/self/cgroup": lines})) == 8 * GIB


def test_more_used_than_allowed_leaves_nothing(system):
    files = group("", GIB, 3 * GIB, 0, V2)
    assert available_bytes(system(**MACHINE, **files, **{"proc/self/cgroup": "0::/\n"})) == 0
