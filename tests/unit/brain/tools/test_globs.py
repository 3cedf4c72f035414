from __future__ import annotations

import time
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brain.tools.fs.globs import MAX_ALTERNATIVES, Glob, GlobError, GlobSet, expand_braces


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.txt", "a.txt", True),
        ("*.txt", ".txt", True),
        ("*.txt", "d/a.txt", False),
        ("**/*.txt", "a.txt", True),
        ("**/*.txt", "d/e/a.txt", True),
        ("d/**", "d/e/f", True),
        ("d/**", "d", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "ab", False),
        ("a**b", "a/x/b", True),
        ("**", "a/b/c", True),
        ("?.txt", "/.txt", False),
        ("?.txt", "ä.txt", True),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[!a]x", "/x", False),
        ("[*?]", "*", True),
        ("[]]", "]", True),
        ("[&&a]", "&", True),
        ("{a,b}.txt", "b.txt", True),
        ("{a,b/c}.txt", "b/c.txt", True),
        ("{,x}a", "a", True),
        ("x{a,{b,c}}", "xc", True),
        (r"\*", "*", True),
        (r"\*", "a", False),
        (r"\{a,b\}", "{a,b}", True),
        ("a.b", "axb", False),
        ("a", "a\n", False),
        ("A", "a", False),
    ],
)
def test_glob(pattern: str, path: str, expected: bool) -> None:
    assert Glob(pattern).matches(path) is expected


@pytest.mark.parametrize(
    "pattern", ["[", "a[b", "{a,b", "{a,{b}", "a\\", "[z-a]", "[a/b]", "{" + ",".join("x" * 70) + "}", "a" * 1001]
)
def test_invalid_pattern_is_refused_and_matches_nothing(pattern: str) -> None:
    with pytest.raises(GlobError):
        Glob(pattern)
    assert not GlobSet([pattern]).matches(pattern)
    assert GlobSet([pattern, "ok"]).matches("ok")


def _plain_match(pattern: str, path: str) -> bool:
    @cache
    def match(i: int, j: int) -> bool:
        if i == len(pattern):
            return j == len(path)
        if pattern.startswith("**", i):
            k = i
            while k < len(pattern) and pattern[k] == "*":
                k += 1
            if (i == 0 or pattern[i - 1] == "/") and pattern.startswith("/", k):
                return match(k + 1, j) or any(path[x] == "/" and match(k + 1, x + 1) for x in range(j, len(path)))
            return any(match(k, x) for x in range(j, len(path) + 1))
        if pattern[i] == "*":
            end = path.find("/", j)
            return any(match(i + 1, x) for x in range(j, (len(path) if end == -1 else end) + 1))
        return j < len(path) and (path[j] == pattern[i] or (pattern[i] == "?" and path[j] != "/")) and match(i + 1, j + 1)

    return match(0, 0)


@given(
    st.lists(st.sampled_from(["a", "b", "/", "*", "**", "?", "**/", "/**/"]), max_size=9).map("".join),
    st.text("ab/", max_size=10),
)
def test_atomic_matching_agrees_with_plain_backtracking(pattern: str, path: str) -> None:
    assert Glob(pattern).matches(path) is _plain_match(pattern, path)


@pytest.mark.parametrize("pattern", ["*a" * 200 + "b", "**a" * 200 + "b", "**/a*" * 150 + "b", "*?" * 200 + "b"])
def test_hostile_pattern_is_answered_quickly(pattern: str) -> None:
    glob = Glob(pattern)
    started = time.perf_counter()
    glob.matches("a" * 4000)
    glob.matches("a/" * 2000)
    assert time.perf_counter() - started < 1


@given(st.text("{},ab\\[]", max_size=30))
def test_expansion_ends_for_any_text(pattern: str) -> None:
    try:
        assert len(expand_braces(pattern)) <= MAX_ALTERNATIVES
    except GlobError:
        return
