"""A loader's position is found again, whatever its sampler, and nothing is drawn on the way."""

from __future__ import annotations

import pytest
import torch

from app.contract import Refusal


def test_the_loader_draws_nothing_from_the_global_generator_and_finds_its_place_in_any_epoch():
    from app.data import Batches

    def batches() -> Batches:
        return Batches(torch.utils.data.DataLoader(torch.arange(10), batch_size=3, shuffle=True), seed=4)

    whole = batches()
    before = torch.get_rng_state()
    drawn = [next(whole).tolist() for _ in range(12)]
    assert torch.equal(before, torch.get_rng_state())
    assert sorted(item for batch in drawn[:4] for item in batch) == list(range(10))
    assert drawn[:4] != drawn[4:8]
    for position in range(12):
        first = batches()
        for _ in range(position):
            next(first)
        second = batches()
        second.load_state_dict(first.state_dict())
        assert [next(second).tolist() for _ in range(12 - position)] == drawn[position:]


def test_an_empty_loader_is_an_error_rather_than_an_endless_loop():
    from app.data import Batches

    empty = Batches(torch.utils.data.DataLoader(torch.arange(2), batch_size=3, drop_last=True))
    with pytest.raises(ValueError, match="no batches"):
        next(empty)


@pytest.mark.parametrize("kind", ["batch sampler", "set_epoch"])
def test_any_sampler_gives_the_same_order_again(kind):
    from app.data import Batches

    class Epochs(torch.utils.data.Sampler[int]):
        """As torch's DistributedSampler: the order depends on the epoch that it is told."""

        epoch = 0

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __len__(self) -> int:
            return 6

        def __iter__(self):
            return iter([(index * (self.epoch + 1)) % 7 - 1 for index in range(1, 7)])

    def batches() -> Batches:
        of = torch.arange(6)
        if kind == "set_epoch":
            return Batches(torch.utils.data.DataLoader(of, batch_size=2, sampler=Epochs()), seed=4)
        sampler = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(of), 2, drop_last=False)
        return Batches(torch.utils.data.DataLoader(of, batch_sampler=sampler), seed=4)

    first, whole = batches(), batches()
    drawn = [next(whole).tolist() for _ in range(9)]
    assert drawn[:3] != drawn[3:6]
    for _ in range(5):
        next(first)
    second = batches()
    second.load_state_dict(first.state_dict())
    assert [next(second).tolist() for _ in range(4)] == drawn[5:]


def test_a_loader_whose_position_cannot_be_found_again_is_refused():
    from app.data import Batches

    data = torch.arange(8)
    with pytest.raises(Refusal, match="persistent_workers=False"):
        Batches(torch.utils.data.DataLoader(data, num_workers=1, persistent_workers=True))
    position = Batches(torch.utils.data.DataLoader(data)).state_dict()
    with pytest.raises(Refusal, match="gives 5 batches an epoch, and gave 8"):
        Batches(torch.utils.data.DataLoader(data[:5])).load_state_dict(position)


class Stream(torch.utils.data.IterableDataset[int]):
    """Says that it has six items, as `__len__` of a stream may, which is an estimate; gives as many as it likes."""

    def __init__(self, gives: int) -> None:
        self.gives = gives

    def __len__(self) -> int:
        return 6

    def __iter__(self):
        return iter(range(self.gives))


@pytest.mark.filterwarnings("ignore:Length of IterableDataset")
def test_a_loader_that_gives_more_than_it_said_is_found_again_behind_its_length():
    from app.data import Batches

    def batches(gives: int) -> Batches:
        return Batches(torch.utils.data.DataLoader(Stream(gives), batch_size=2))

    first, second = batches(12), batches(12)
    for _ in range(5):
        next(first)
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict()
    assert next(second).tolist() == [10, 11]
    with pytest.raises(Refusal, match="no position in data"):
        batches(6).load_state_dict(first.state_dict())


def test_an_item_that_cannot_be_had_while_a_position_is_found_again_says_nothing_of_the_state():
    """A retry may have it: it is no refusal, as it is none when it happens in a step."""
    from app.data import Batches
    from app.loop.restoring import putting_back

    class Remote(torch.utils.data.Dataset[int]):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> int:
            raise RuntimeError(f"item {index}: connection reset")

    batches = Batches(torch.utils.data.DataLoader(Remote(), batch_size=2))
    with pytest.raises(RuntimeError, match="connection reset"), putting_back("data"):
        batches.load_state_dict({"seed": 0, "epoch": 0, "position": 1, "batches": 3})


def test_a_sampler_that_cannot_take_a_position_refuses_the_state():
    from app.data import Batches
    from app.loop.restoring import putting_back

    class Short(torch.utils.data.SequentialSampler):
        def set_epoch(self, epoch: int) -> None:
            if epoch > 4:
                raise ValueError("there are four epochs")

    data = torch.arange(6)
    batches = Batches(torch.utils.data.DataLoader(data, batch_size=2, sampler=Short(data)))
    with pytest.raises(Refusal, match=r"data does not fit: ValueError.'there are four epochs"), putting_back("data"):
        batches.load_state_dict({"seed": 0, "epoch": 5, "position": 1, "batches": 3})


def test_any_whole_number_is_a_seed_and_small_ones_give_what_they_always_gave():
    from app.data import Batches

    def shuffled(generator: torch.Generator | None = None) -> torch.utils.data.DataLoader[int]:
        return torch.utils.data.DataLoader(torch.arange(100), batch_size=100, shuffle=True, generator=generator)

    def first(seed: int) -> tuple[int, ...]:
        return tuple(next(Batches(shuffled(), seed=seed)).tolist())

    for seed in (4, -4):
        (straight,) = shuffled(torch.Generator().manual_seed(seed * 1_000_003))
        assert first(seed) == tuple(straight.tolist())
    assert len({first(seed) for seed in (2**60, 2**60 + 1, 2**63 - 1, 10**30)}) == 4
    first(-(2**60))
