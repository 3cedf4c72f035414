"""The report page, from figures to Markdown."""

from __future__ import annotations

from tests.eval.remembering import Remembered
from tests.eval.retrieval import WAYS, Retrieval, Way

HEAD = """# Evaluation of the memory

This page is written by `make eval`; do not edit it. It says what the memory keeps of a scripted corpus, and what it finds again.

The corpus ({chats} conversations over several days in English, Chinese, Japanese and with code, {facts} planted facts, {traps} traps) lies in
`tests/eval/corpus`. A fact counts as kept if one note has all its key words, and as found if such a note is among the first hits for its question.
Traps are jokes, fiction, hypotheses, the assistant's own words and echoes of memory: none of them may be in a note.
"""

TIERS = {
    "recorded": (
        "Recorded answers",
        "Answers as mid-size open models give them, with the usual faults mixed in (fences, thoughts, prose, wrong numbers, invented quotes, "
        "echoes), drive extraction, checks, plan and records. The wording of the good items is the gold statement, so this measures our "
        "code, not a model. Embeddings: a fixed word model, so that the figures are the same everywhere. Runs with the tests.",
    ),
    "bundled": (
        "The bundled model",
        "The bundled chat model (135 million parameters) cannot word facts. The memory then keeps sentences of the person as they stand. "
        "Embeddings: the bundled multilingual-e5-small.",
    ),
    "configured": ("The configured model", "Extraction and plan by the models of the configuration, over its hand."),
}


def render(corpus: dict[str, int], tiers: dict[str, Remembered], retrieval: dict[str, dict[tuple[Way, str], Retrieval]]) -> str:
    """Return the page."""
    parts = [HEAD.format(**corpus)]
    for key, figures in tiers.items():
        title, text = TIERS[key]
        parts.append(f"## {title}\n\n{text}\n\n{_remembered(figures)}")
    for embedder, figures in retrieval.items():
        parts.append(
            f"## Finding, with {embedder}\n\nThe gold facts are the notes; every question is asked. `fused` is what the product uses.\n\n{_retrieval(figures)}"
        )
    return "\n".join(parts)


def _remembered(figures: Remembered) -> str:
    rows = [
        ("Facts kept", _share(figures.kept, figures.facts)),
        ("of these, with the right date", _share(figures.dated, figures.with_date)),
        ("Facts found among the first 5 hits", _share(figures.found_at_5, figures.facts)),
        ("Facts found among the first 10 hits", _share(figures.found_at_10, figures.facts)),
        ("Notes written", str(figures.notes)),
        ("Notes with a source message", _share(figures.sourced, figures.notes)),
        ("Notes that are a verbatim quote of the person", _share(figures.verbatim, figures.notes)),
        ("Notes that share words with their source message", _share(figures.supported, figures.notes)),
        ("Traps that got into a note", _share(figures.traps, figures.trap_cases)),
        ("Items that the checks dropped", str(figures.dropped)),
        ("Notes added by a second pass over everything", _share(figures.added_by_rerun, figures.notes)),
        ("Seconds for the first pass", f"{figures.seconds:.1f}"),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    missed = "\n".join(f"- {text}" for text in figures.missed)
    return f"| Figure | Value |\n|---|---|\n{table}\n" + (f"\nNot kept:\n\n{missed}\n" if missed else "")


def _retrieval(figures: dict[tuple[Way, str], Retrieval]) -> str:
    lines = ["| Questions | Way | n | recall@5 | recall@10 | MRR | p95 ms |", "|---|---|---|---|---|---|---|"]
    for kind in dict.fromkeys(kind for _, kind in figures):
        for way in WAYS:
            row = figures[way, kind]
            cells = [
                kind,
                way,
                str(row.questions),
                f"{row.recall_at_5:.2f}",
                f"{row.recall_at_10:.2f}",
                f"{row.mrr:.2f}",
                f"{row.p95_ms:.1f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.0%})" if whole else f"{part} of 0"
