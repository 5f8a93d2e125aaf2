"""A small GPT: token and position embeddings, pre-norm blocks of causal attention and MLP, tied output."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the field's name for it


@dataclass(frozen=True)
class Shape:
    layers: int
    heads: int
    width: int
    context: int
    """Tokens a sequence."""
    vocabulary: int
    dropout: float = 0.1


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, shape.dropout
        self.norm1 = nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.norm2 = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width, bias=False)
        self.down = nn.Linear(4 * shape.width, shape.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        rate = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=rate)
        x = x + F.dropout(self.out(mixed.transpose(1, 2).reshape(batch, length, width)), rate)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), rate)


class GPT(nn.Module):
    """forward: tokens [batch, length] int64 -> logits [batch, length, vocabulary]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:  # GPT-2: residual projections start smaller by the number of residual additions
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * shape.layers) if residual else 1.0))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean cross entropy in nats a token; inputs and targets [batch, length]."""
        return F.cross_entropy(self(inputs).flatten(0, 1).float(), targets.flatten())

    @torch.no_grad()
    def sample(self, prompt: bytes, length: int, *, temperature: float = 0.8, seed: int = 0) -> bytes:
        """`length` bytes that continue `prompt`. Draws from a generator of its own, not from the global one."""
        device = self.head.weight.device
        generator = torch.Generator(device).manual_seed(seed)
        was_training = self.training
        self.eval()
        tokens = torch.tensor([list(prompt)], device=device)
        for _ in range(length):
            logits = self(tokens[:, -self.shape.context :])[:, -1].float() / temperature
            drawn = torch.multinomial(logits.softmax(-1), 1, generator=generator)
            tokens = torch.cat([tokens, drawn], dim=1)
        self.train(was_training)
        return bytes(tokens[0].tolist())
