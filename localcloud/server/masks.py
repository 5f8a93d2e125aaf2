"""Field masks and merge patches: the two ways in which a PATCH says what it changes."""

import copy
import re

from localcloud.jsontypes import Json, obj


def camel(path: str) -> str:
    """`display_name` and `displayName` both name the field `displayName`."""
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), path)


def masked(old: Json, new: Json, mask: str) -> Json:
    """`old` with the fields of `mask` taken from `new`: absent there means removed.

    An empty mask replaces what `new` carries.
    """
    result = copy.deepcopy(old)
    for path in [camel(each.strip()) for each in mask.split(",") if each.strip()] or list(new):
        target, source = result, new
        *parents, leaf = path.split(".")
        for parent in parents:
            target = target.setdefault(parent, {})
            source = obj(source.get(parent))
        if leaf in source:
            target[leaf] = source[leaf]
        else:
            target.pop(leaf, None)
    return result


def merged(old: Json, patch: Json) -> Json:
    """RFC 7396: objects merge, null removes, everything else replaces."""
    result = dict(old)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(obj(result.get(key)), obj(value))
        else:
            result[key] = value
    return result
