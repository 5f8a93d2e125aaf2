"""A tree of state to JSON and raw bytes, and back. Nothing is ever pickled.

In the JSON an object with one key that begins with "$" is a value JSON has no word for; `{"$tensor": 3}` stands for
row 3 of the table, the fourth. A tensor that occurs twice (tied weights) is one row. docs/checkpoints.md lists every
kind of value; anything else is refused with its path when it is saved, so that nothing comes back as something else.

torch and numpy are not imported for a state that holds none of their values.
"""

from app.checkpoint.state.blob import Blob, Encoded, Undecodable, Unsavable
from app.checkpoint.state.decoding import decode
from app.checkpoint.state.encoding import encode
from app.checkpoint.state.registered import ClassChanged, NotRegistered, register

__all__ = [
    "Blob",
    "ClassChanged",
    "Encoded",
    "NotRegistered",
    "Undecodable",
    "Unsavable",
    "decode",
    "encode",
    "register",
]
