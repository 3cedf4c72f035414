"""All routes under ``/api/eltm`` of the stored memory as one controller: the framework takes a path from one controller only."""

from __future__ import annotations

from brain.api.memory import ROOT, MemoryReading
from brain.api.memory_edit import Forgetting, MemoryEditing
from brain.api.memory_transfer import MemoryTransfer


class EltmController(MemoryReading, MemoryEditing, Forgetting, MemoryTransfer):
    """The long-term memory."""

    path = ROOT
    tags = ("memory",)
