"""A tensor subclass as quantized training has them: data and scale inside, arithmetic on what they stand for."""

from __future__ import annotations

from typing import Any

import torch


class Packed(torch.Tensor):
    """int8 values times a scale. Its context says which dtype it stands for."""

    data8: torch.Tensor
    scale: torch.Tensor

    @staticmethod
    def __new__(cls, data8: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> Packed:
        made = torch.Tensor._make_wrapper_subclass(cls, data8.shape, dtype=dtype)
        made.data8, made.scale = data8, scale
        return made

    def __init__(self, data8: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> None: ...

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["data8", "scale"], {"dtype": self.dtype, "packing": (1, "row")}

    @classmethod
    def __tensor_unflatten__(
        cls, inner: dict[str, torch.Tensor], context: Any, _size: torch.Size, _stride: tuple[int, ...]
    ) -> Packed:
        assert context["packing"] == (1, "row")
        return cls(inner["data8"], inner["scale"], context["dtype"])

    @classmethod
    def __torch_dispatch__(cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = args[0]
        if function is torch.ops.aten.detach.default:
            return cls(first.data8, first.scale, first.dtype)
        if function is torch.ops.aten.copy_.default:
            first.data8.copy_(args[1].data8)
            first.scale.copy_(args[1].scale)
            return first
        plain = [each.plain() if isinstance(each, Packed) else each for each in args]
        return function(*plain, **(kwargs or {}))

    def plain(self) -> torch.Tensor:
        return self.data8.to(self.dtype) * self.scale
