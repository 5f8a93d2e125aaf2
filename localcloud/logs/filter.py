"""The filter language of Cloud Logging, as far as it is sure to mean the same here; anything else is refused by name.

Known: comparisons (`=`, `!=`, `:`, `<`, `<=`, `>`, `>=`, `=~`, `!~`) of a field path with one value or with `(a OR b)`,
`field:*`, AND (also by juxtaposition), OR, NOT, `-`, parentheses and comments. Reference: "Logging query language".
"""

import re
from dataclasses import dataclass

from localcloud.logs.comparisons import FilterError, Predicate, compare, exists, moment_of
from localcloud.resources import timestamp

_TOKEN = re.compile(
    r"""\s*(?:--[^\n]*\n?\s*)*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<op>!=|<=|>=|=~|!~|[=<>:])|(?P<punct>[()-])|"""
    r"""(?P<word>[^\s()=<>:!"~-][^\s()=<>:!"~]*))"""
)
_PATH_START = re.compile(r"[A-Za-z_]")


@dataclass(frozen=True)
class Filter:
    """A compiled filter. `since` and `until` bound the time of whatever can match; "" where unbounded."""

    matches: Predicate
    since: str = ""
    until: str = ""


def compile_filter(text: str) -> Filter:
    """The filter that `text` describes; the empty text matches everything.

    Raises:
        FilterError: see there.
    """
    tokens = _tokens(text)
    if not tokens:
        return Filter(lambda _entry: True)
    parser = _Parser(tokens)
    predicate = parser.conjunction()
    if parser.peek() is not None:
        raise FilterError(f"Unparseable filter: unexpected {parser.peek()!r} in {text!r}.")
    return Filter(predicate, parser.since, parser.until)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str

    def __repr__(self) -> str:
        return self.text


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position, end = 0, len(re.sub(r"(\s|--[^\n]*)+\Z", "", text))
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise FilterError(f"Unparseable filter at character {position}: {text[position : position + 20]!r}.")
        found.append(_Token(match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return found


class _Parser:
    """Recursive descent. As in the real language, OR binds tighter than AND."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self.since = ""
        self.until = ""

    def peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> _Token:
        token = self.peek()
        if token is None:
            raise FilterError("Unparseable filter: it ends too early.")
        self._at += 1
        return token

    def _is(self, text: str) -> bool:
        token = self.peek()
        return token is not None and token.kind != "string" and token.text == text

    def conjunction(self) -> Predicate:
        parts = [self._disjunction()]
        while self.peek() is not None and not self._is(")"):
            if self._is("AND"):
                self._take()
            parts.append(self._disjunction())
        return parts[0] if len(parts) == 1 else lambda entry: all(part(entry) for part in parts)

    def _disjunction(self) -> Predicate:
        start = self._at
        parts = [self._negation()]
        while self._is("OR"):
            self._take()
            self._depth += 1  # a bound inside an alternative bounds nothing
            parts.append(self._negation())
            self._depth -= 1
        if len(parts) == 1:
            return parts[0]
        if start == 0:
            self.since = self.until = ""
        return lambda entry: any(part(entry) for part in parts)

    def _negation(self) -> Predicate:
        if self._is("NOT") or self._is("-"):
            self._take()
            self._depth += 1
            inner = self._negation()
            self._depth -= 1
            return lambda entry: not inner(entry)
        if self._is("("):
            self._take()
            self._depth += 1
            inner = self.conjunction()
            self._depth -= 1
            if not self._is(")"):
                raise FilterError("Unparseable filter: a parenthesis is not closed.")
            self._take()
            return inner
        return self._comparison()

    def _comparison(self) -> Predicate:
        path = [self._path_piece()]
        # `labels."run.googleapis.com/task_index"` arrives as the word `labels.` and a string.
        while path[-1].text.endswith(".") or self._next_joins():
            path.append(self._path_piece())
        fields = _fields(path)
        if self._is("("):
            raise FilterError(f"Unsupported in a filter: the function {'.'.join(fields)}().")
        operator = self.peek()
        if operator is None or operator.kind != "op":
            raise FilterError(
                f"Unsupported in a filter: text without a field, {'.'.join(fields)!r}. Name the field, such as "
                f"textPayload:{fields[0]!r}."
            )
        self._take()
        if self._is("("):
            return self._alternatives(fields, operator.text)
        value = self._value()
        self._bound(fields, operator.text, value.text)
        if operator.text == ":" and value == _Token("word", "*"):
            return exists(fields)
        return compare(fields, operator.text, _unquote(value.text))

    def _next_joins(self) -> bool:
        token = self.peek()
        return token is not None and token.kind == "word" and token.text.startswith(".")

    def _path_piece(self) -> _Token:
        token = self._take()
        if token.kind not in {"word", "string"}:
            raise FilterError(f"Unparseable filter: a field was expected, not {token!r}.")
        return token

    def _value(self) -> _Token:
        token = self._take()
        if token.kind == "punct" and token.text == "-":
            return _Token("word", "-" + self._take().text)
        if token.kind not in {"word", "string"}:
            raise FilterError(f"Unparseable filter: a value was expected, not {token!r}.")
        if token.kind == "word":  # 2026-11-30T10:00:00Z without quotes comes in pieces
            text = token.text
            while (following := self.peek()) and (following.text in {":", "-"}) and re.fullmatch(r"[\d:T.+-]+", text):
                text += self._take().text + self._take().text
            return _Token("word", text)
        return token

    def _alternatives(self, fields: list[str], operator: str) -> Predicate:
        self._take()
        parts: list[Predicate] = []
        joins: set[str] = set()
        while True:
            parts.append(compare(fields, operator, _unquote(self._value().text)))
            token = self._take()
            if token.text == ")":
                break
            if token.text not in {"OR", "AND"}:
                raise FilterError(f"Unparseable filter: {token!r} inside {'.'.join(fields)}{operator}(...).")
            joins.add(token.text)
        if len(joins) > 1:
            raise FilterError(f"Unsupported in a filter: AND beside OR inside {'.'.join(fields)}{operator}(...).")
        combine = all if joins == {"AND"} else any
        return lambda entry: combine(part(entry) for part in parts)

    def _bound(self, fields: list[str], operator: str, value: str) -> None:
        if self._depth or fields != ["timestamp"]:
            return
        moment = timestamp(moment_of(_unquote(value)))
        if operator in {">", ">="}:
            self.since = max(self.since, moment)
        elif operator in {"<", "<="}:
            self.until = min(self.until or moment, moment)


def _fields(path: list[_Token]) -> list[str]:
    fields: list[str] = []
    for token in path:
        if token.kind == "string":
            fields.append(_unquote(token.text))
        else:
            fields += [each for each in token.text.split(".") if each]
    if not fields or (path[0].kind == "word" and not _PATH_START.match(fields[0])):
        raise FilterError(f"Unparseable filter: {''.join(token.text for token in path)!r} is no field.")
    return fields


def _unquote(text: str) -> str:
    if not text.startswith('"'):
        return text
    return re.sub(r"\\(.)", r"\1", text[1:-1])
