"""Reads the prompt files that lie beside their users: the first line names the version, the rest is the text."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

_VERSION_MARK: Final = "version:"
_FIELD: Final = re.compile(r"\{\{([a-z_]+)\}\}")


class PromptFileError(Exception):
    """A prompt file does not start with its version; found by the first test that loads it."""


class Prompt(msgspec.Struct, frozen=True):
    """A prompt text and the version that is stored with what it produced."""

    version: str
    text: str

    def fill(self, values: msgspec.Struct) -> str:
        """Return the text with every ``{{field}}`` replaced by the struct's field of that name.

        Raises:
            KeyError: the text names a field that the struct does not have, or the other way round.
        """
        fields, named = set(values.__struct_fields__), set(_FIELD.findall(self.text))
        if fields != named:
            raise KeyError(f"prompt {self.version!r} has places for {sorted(named)}, and is given {sorted(fields)}")
        # In one pass: what is filled in may look like a place itself.
        return _FIELD.sub(lambda match: str(getattr(values, match[1])), self.text)


@cache
def read_prompt(package: str, name: str) -> Prompt:
    """Return ``prompts/<name>.en.md`` of a package.

    Raises:
        PromptFileError: the first line is not ``version: <name>-<number>``.
    """
    content = files(package).joinpath("prompts", f"{name}.en.md").read_text("utf-8")
    head, _, text = content.partition("\n")
    if not head.startswith(_VERSION_MARK):
        raise PromptFileError(f"{package}: prompts/{name}.en.md must start with {_VERSION_MARK!r}")
    return Prompt(head.removeprefix(_VERSION_MARK).strip(), text.strip())
