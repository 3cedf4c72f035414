"""The documentation is true where a program can tell: links lead somewhere, named commands and settings exist."""

from __future__ import annotations

import re
from pathlib import Path

import jsonyx
import pytest
from jsonyx import allow

from brain.config.load import check
from brain.local.profile import complete

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
JSONC = re.compile(r"```jsonc\n(.*?)```", re.DOTALL)
TARGET = re.compile(r"`make ([a-z0-9-]+)`")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files(page: Path) -> None:
    assert [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(TARGET.findall(page.read_text())) - targets == set()


@pytest.mark.parametrize("page", [page for page in PAGES if JSONC.search(page.read_text())], ids=name)
def test_configuration_examples_are_accepted(page: Path) -> None:
    for text in JSONC.findall(page.read_text()):
        if "{ …" in text:  # leaves something out
            continue
        whole = text if text.lstrip().startswith(("{", "//")) else f"{{{text}}}"  # a fragment shows some keys of the file
        data = jsonyx.loads(whole, allow=allow.COMMENTS | allow.TRAILING_COMMA)
        check(complete(data, token="t", hand_port=3100, models_port=3180), {}, source=name(page))


def test_the_example_that_the_page_offers_is_accepted() -> None:
    example = ROOT / "web" / "src" / "lib" / "components" / "chat" / "real-model.json"
    data = jsonyx.loads(example.read_text())
    check(complete(data, token="t", hand_port=3100, models_port=3180), {}, source=example.name)


def test_every_target_of_the_makefile_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text()
    wanted = {"install", "run", "test", "check", "fix", "web", "types", "schema", "docs", "e2e", "eval", "bench"}
    assert wanted <= set(re.findall(r"^([a-z0-9-]+):.*## ", makefile, re.MULTILINE))
