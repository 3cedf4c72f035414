"""What the memory's tools answer, as the model sees it (memory.md section 7.2)."""

from __future__ import annotations

from collections.abc import Sequence

from brain.memory.relationships import state_word
from brain.memory.search import EntityHit, NoteHit
from brain.memory.views import AttachedNotes, CreatedEntity, EntityView, MergedEntities, Note, RelationshipView

NO_MEANING = "(Search by meaning is unavailable at the moment: these are matches by words and names only.)"


def entity_blocks(hits: Sequence[EntityHit], degraded: str | None) -> str:
    """Return the entities that were found."""
    if not hits:
        return _with_notice("No entities found.", degraded)
    return _with_notice("\n\n".join(entity_block(hit.view, hit.similarity) for hit in hits), degraded)


def listed_entities(views: Sequence[EntityView]) -> str:
    """Return a page of entities."""
    return "\n\n".join(entity_block(view) for view in views) or "No entities match."


def entity_block(view: EntityView, similarity: float | None = None) -> str:
    """Return an entity with counts, attributes and newest note."""
    return "\n".join([entity_header(view, similarity), *_attributes(view), *_latest(view.latest_note)])


def entity_header(view: EntityView, similarity: float | None = None) -> str:
    """Return the first line of an entity."""
    closeness = "" if similarity is None else f"similarity {similarity:.3f}, "
    counts = f"notes {view.note_count}, relations {view.relationship_count}"
    return f'# Entity {view.entity.id} - "{view.entity.canonical_name}" ({view.entity.category}) - {closeness}{counts}'


def entity_summary(view: EntityView) -> str:
    """Return an entity with counts and attributes."""
    return "\n".join([entity_header(view), *_attributes(view)])


def created_entity(created: CreatedEntity) -> str:
    """Return a created or found entity with its near matches."""
    lines = [entity_summary(created.view)]
    if not created.near_matches:
        lines.append("No near matches.")
        return "\n".join(lines)
    lines.append("Near matches (if one of them is the same thing, use its id instead):")
    for match in created.near_matches:
        header, *attributes = entity_summary(match.view).split("\n")
        if match.similarity is not None:
            header = entity_header(match.view, match.similarity)
        lines.append(f"- {header.removeprefix('# ')}")
        lines.extend(f"  {line}" for line in attributes)
    return "\n".join(lines)


def relationship_blocks(views: Sequence[RelationshipView]) -> str:
    """Return the relationships of an entity."""
    return "\n\n".join(relationship_block(view) for view in views) or "No relationships."


def relationship_block(view: RelationshipView) -> str:
    """Return a relationship with its newest note."""
    return "\n".join([relationship_header(view), *_latest(view.latest_note)])


def relationship_header(view: RelationshipView) -> str:
    """Return the first line of a relationship."""
    edge = view.relationship
    source, target = f'"{view.src_name}"(#{edge.src_id})', f'"{view.dst_name}"(#{edge.dst_id})'
    return f"# Relationship {edge.id}: {source} - {edge.verb} - {target} ({state_word(edge.valid)}, notes {view.note_count})"


def note_blocks(notes: Sequence[Note]) -> str:
    """Return notes, newest first."""
    return "\n\n".join(_note(note) for note in notes) or "No notes."


def found_notes(hits: Sequence[NoteHit], degraded: str | None) -> str:
    """Return the notes that were found, best first."""
    blocks = "\n\n".join(_note(hit.note) for hit in hits)
    return _with_notice(blocks or "No notes found.", degraded)


def attached_note(attached: AttachedNotes, subject: str) -> str:
    """Return what became of a note that was to be added to ``subject`` (`entity 3`)."""
    validity = "" if attached.valid is None else f" The {subject} is {state_word(attached.valid)}."
    if attached.near:
        known = "\n\n".join(_note(near.note) for near in attached.near)
        return (
            f"Not recorded: the {subject} already has notes of this day that say nearly the same. If yours says something new, "
            f"call again with force=true; otherwise do nothing.{validity}\n\n{known}"
        )
    if attached.kept_out:
        return f"Not recorded: a person erased this statement and it must not come back. Skip it.{validity}"
    note = attached.notes[0]
    if not attached.written[0]:
        return f"Already recorded as note {note.id} ({note.event_date}) of {subject}; nothing was written.{validity}"
    return f"Added note {note.id} ({note.event_date}) to {subject}.{validity}"


def merged_entities(merged: MergedEntities, loser_id: int) -> str:
    """Return the confirmation of a merge."""
    winner = merged.view.entity
    folded = f", attributes taken over: {', '.join(merged.folded_keys)}" if merged.folded_keys else ""
    return f'Merged entity {loser_id} into entity {winner.id} ("{winner.canonical_name}"){folded}.'


def _note(note: Note) -> str:
    return f"## {note.event_date} (note {note.id})\n{note.note}"


def _attributes(view: EntityView) -> list[str]:
    if not view.attributes:
        return []
    return ["Attributes:", *(f"  {key}: {value}" for key, value in view.attributes.items())]


def _latest(note: Note | None) -> list[str]:
    return [] if note is None else [f"Latest note ({note.event_date}): {note.note}"]


def _with_notice(text: str, degraded: str | None) -> str:
    return text if degraded is None else f"{text}\n\n{NO_MEANING}"
