"""Samples that may be compared: interleaved, in rotating order, without the warm-up."""

from bench.measure import Cost, cpu_seconds, drop_from_cache, files, interleaved, timed, warm_cache


def test_candidates_take_turns_in_rotating_order_and_the_warm_up_does_not_count():
    order: list[str] = []

    def candidate(name: str):
        def once() -> Cost:
            order.append(name)
            return Cost(float(len(order)), 0.0)

        return once

    found = interleaved({name: candidate(name) for name in "abc"}, 2, warm_up=1)
    assert "".join(order) == "abcbcacab"
    assert [cost.seconds for cost in found["a"]] == [6.0, 8.0]
    assert {len(costs) for costs in found.values()} == {2}


def test_time_and_cpu_of_an_action_are_its_own():
    cost = timed(lambda: sum(range(200_000)))
    assert 0 < cost.seconds < 60
    assert 0 <= cost.cpu_s <= cpu_seconds()


def test_the_page_cache_is_dropped_and_warmed_for_whole_trees_without_harm(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "shard").write_bytes(b"x" * 10_000)
    (tmp_path / "b").write_bytes(b"y")
    assert files(tmp_path) == [tmp_path / "a" / "shard", tmp_path / "b"]
    drop_from_cache(tmp_path)
    warm_cache(tmp_path)
    assert (tmp_path / "a" / "shard").read_bytes() == b"x" * 10_000
