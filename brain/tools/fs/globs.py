"""Globs over relative paths with ``/`` (chat-domain 16.2), translated to expressions that cannot backtrack without bound.

``*``, ``?`` and ``[...]`` stay within a segment, ``**`` crosses segments wherever it stands, ``{a,b}`` are alternatives, a
backslash takes the next character literally. A leading ``**/`` and a ``/**/`` in the middle also stand for no directory at all.
Patterns come from a model and run while the interpreter lock is held, so each piece between wildcards is matched at its first
place only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MAX_ALTERNATIVES: Final = 64
MAX_PATTERN_CHARS: Final = 1_000

_STAR: Final = "*"
_GLOBSTAR: Final = "**"
_ANY_DIRECTORIES: Final = "**/"


class GlobError(ValueError):
    """The pattern is not valid."""


class Glob:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        """Compile.

        Raises:
            GlobError: an unclosed group or class, a dangling escape, or a pattern over the limits.
        """
        if len(pattern) > MAX_PATTERN_CHARS:
            raise GlobError(f"the pattern has more than {MAX_PATTERN_CHARS} characters")
        expressions = [_expression(list(_tokens(alternative))) for alternative in expand_braces(pattern)]
        try:
            self._regex = re.compile("|".join(f"(?:{expression})" for expression in expressions), re.DOTALL)
        except re.error as problem:
            raise GlobError(f"the pattern {pattern!r} is not valid: {problem}") from problem

    def matches(self, relative_path: str) -> bool:
        """Whether the whole path matches."""
        return self._regex.fullmatch(relative_path) is not None


class GlobSet:
    """Several patterns of a model; those that are not valid match nothing."""

    def __init__(self, patterns: list[str]) -> None:
        self._globs: list[Glob] = []
        for pattern in patterns:
            try:
                self._globs.append(Glob(pattern))
            except GlobError:
                continue  # chat-domain 16.2: an invalid pattern of the model matches nothing

    def matches(self, relative_path: str) -> bool:
        """Whether any pattern matches the whole path."""
        return any(glob.matches(relative_path) for glob in self._globs)


def expand_braces(pattern: str) -> list[str]:
    """Return the pattern without ``{a,b}`` groups: one per combination, escapes and classes left alone.

    Raises:
        GlobError: a group that is never closed, or more than ``MAX_ALTERNATIVES`` combinations.
    """
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        group = _first_group(current)
        if group is None:
            done.append(current)
        else:
            start, end, alternatives = group
            waiting.extend(current[:start] + alternative + current[end:] for alternative in reversed(alternatives))
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise GlobError(f"the pattern has more than {MAX_ALTERNATIVES} alternatives")
    return done


def _first_group(pattern: str) -> tuple[int, int, list[str]] | None:
    """Return start, end and alternatives of the first outermost group."""
    start, depth, piece, alternatives = -1, 0, 0, list[str]()
    for index, char in _plain_characters(pattern):
        if char == "{":
            depth += 1
            if depth == 1:
                start, piece = index, index + 1
        elif depth == 1 and char in ",}":
            alternatives.append(pattern[piece:index])
            piece = index + 1
            if char == "}":
                return start, index + 1, alternatives
        elif char == "}" and depth > 1:
            depth -= 1
    if depth:
        raise GlobError("a group '{' is never closed")
    return None


def _plain_characters(pattern: str) -> Iterator[tuple[int, str]]:
    """Yield the characters that are neither escaped nor inside a class."""
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            index += 2
            continue
        if char == "[":
            index = _class_end(pattern, index) + 1
            continue
        yield index, char
        index += 1


def _class_end(pattern: str, start: int) -> int:
    # The first character of a class may be a ']' of its own: '[]a]', '[!]a]'.
    first = start + 2 if pattern[start + 1 : start + 2] == "!" else start + 1
    end = pattern.find("]", first + 1)
    if end == -1:
        raise GlobError("a class '[' is never closed")
    return end


def _tokens(pattern: str) -> Iterator[str]:
    """Yield the three wildcards that repeat, and expressions of one character each."""
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if pattern.startswith("**", index):
            at_segment_start = index == 0 or pattern[index - 1] == "/"
            index += len(pattern[index:]) - len(pattern[index:].lstrip("*"))
            if at_segment_start and pattern.startswith("/", index):
                index += 1
                yield _ANY_DIRECTORIES
            else:
                yield _GLOBSTAR
            continue
        if char == "*":
            yield _STAR
        elif char == "?":
            yield "[^/]"
        elif char == "[":
            end = _class_end(pattern, index)
            yield _class_expression(pattern[index + 1 : end])
            index = end
        elif char == "\\":
            index += 1
            if index == len(pattern):
                raise GlobError("the pattern ends with an escape")
            yield re.escape(pattern[index])
        else:
            yield re.escape(char)
        index += 1


def _class_expression(content: str) -> str:
    negated = content.startswith("!")
    characters = content[1:] if negated else content
    if "/" in characters:
        raise GlobError("a class must not contain '/'")
    # Everything but the range sign is literal; set operators of the expression language must not come alive.
    escaped = re.sub(r"([\\\[\]^&~|])", r"\\\1", characters)
    return f"(?!/)[{'^' if negated else ''}{escaped}]"


def _expression(tokens: list[str]) -> str:
    """Join tokens. What follows a wildcard, up to the next one of at least its reach, is fixed at its first place (atomic)."""
    pieces = _split(tokens, {_GLOBSTAR, _ANY_DIRECTORIES})
    parts: list[str] = []
    for number, (wildcard, rest) in enumerate(pieces):
        body = _segment_expression(rest)
        gap = {"": "", _GLOBSTAR: ".*?", _ANY_DIRECTORIES: "(?:.*?/)??"}[wildcard]
        is_last = number == len(pieces) - 1
        parts.append(f"{gap}{body}" if is_last else f"(?>{gap}{body})")
    return "".join(parts) + r"\Z"


def _segment_expression(tokens: list[str]) -> str:
    pieces = _split(tokens, {_STAR})
    parts: list[str] = []
    for number, (wildcard, rest) in enumerate(pieces):
        gap = "[^/]*?" if wildcard else ""
        is_last = number == len(pieces) - 1
        parts.append(f"{gap}{''.join(rest)}" if is_last else f"(?>{gap}{''.join(rest)})")
    return "".join(parts)


def _split(tokens: list[str], wildcards: set[str]) -> list[tuple[str, list[str]]]:
    """Split into runs, each with the wildcard before it (the first with none)."""
    pieces: list[tuple[str, list[str]]] = [("", [])]
    for token in tokens:
        if token in wildcards:
            pieces.append((token, []))
        else:
            pieces[-1][1].append(token)
    return pieces
