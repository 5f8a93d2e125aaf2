"""A Pulumi provider plugin for the local cloud: the `gcp` types that Google's provider has, loopback only.

Read in this order: `fields` (how a type's properties are declared), `products/` (the types), `servicer` (the engine's
calls), and then what those three use: `checking`, `diffing`, `bodies`, `drift`, `rest`, `settings`.
"""

from __future__ import annotations
