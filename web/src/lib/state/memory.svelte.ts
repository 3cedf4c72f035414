// Looking through the long-term memory, and correcting it.
import { describe } from '../api/errors';
import type { EntityView, MemoryHits, Note, NoteDetail, RelationshipView } from '../api/types';
import * as service from '../services/memory';
import * as edit from '../services/memoryEdit';

export class MemoryBrowser {
  query = $state('');
  hits = $state.raw<MemoryHits | null>(null);
  entities = $state.raw<EntityView[]>([]);
  hasMore = $state(false);
  busy = $state(false);
  error = $state<string | null>(null);
  #run = 0;

  async loadEntities(more = false): Promise<void> {
    await this.#guard(async () => {
      const page = await service.listEntities(more ? this.entities.length : 0);
      this.entities = more ? [...this.entities, ...page] : page;
      this.hasMore = page.length === service.PAGE;
    });
  }

  /** Search for `query`; a blank one goes back to the list. */
  async search(): Promise<void> {
    const run = ++this.#run;
    const q = this.query.trim();
    if (q === '') {
      this.hits = null;
      return;
    }
    await this.#guard(async () => {
      const hits = await service.searchMemory(q);
      if (run === this.#run) this.hits = hits;
    });
  }

  async #guard(work: () => Promise<void>): Promise<void> {
    this.busy = true;
    try {
      await work();
      this.error = null;
    } catch (error) {
      this.error = describe(error);
    } finally {
      this.busy = false;
    }
  }
}

/** One entity with its notes and relationships. */
export class EntityPage {
  view = $state.raw<EntityView | null>(null);
  notes = $state.raw<Note[]>([]);
  relationships = $state.raw<RelationshipView[]>([]);
  hasMore = $state(false);
  error = $state<string | null>(null);

  async load(id: number): Promise<void> {
    try {
      const [view, notes, relationships] = await Promise.all([
        service.loadEntity(id),
        service.entityNotes(id, 0),
        service.entityRelationships(id),
      ]);
      this.view = view;
      this.notes = notes;
      this.relationships = relationships;
      this.hasMore = notes.length === service.PAGE;
      this.error = null;
    } catch (error) {
      this.error = describe(error);
    }
  }

  async moreNotes(id: number): Promise<void> {
    try {
      const page = await service.entityNotes(id, this.notes.length);
      this.notes = [...this.notes, ...page];
      this.hasMore = page.length === service.PAGE;
    } catch (error) {
      this.error = describe(error);
    }
  }

  /** Change name and category; the refusal of the server is thrown, here and below. */
  async change(id: number, name: string, category: string): Promise<void> {
    this.view = await edit.changeEntity(id, { name, category });
  }

  async setAttribute(id: number, key: string, value: string): Promise<void> {
    this.view = await edit.setAttribute(id, key, value);
  }

  async deleteAttribute(id: number, key: string): Promise<void> {
    this.view = await edit.deleteAttribute(id, key);
  }

  async merge(id: number, loserId: number): Promise<void> {
    await edit.mergeEntities(id, loserId);
    await this.load(id);
  }

  async setValid(id: number, relationshipId: number, valid: boolean): Promise<void> {
    await edit.setValid(relationshipId, valid);
    await this.load(id);
  }

  async removeRelationship(id: number, relationshipId: number, erase: boolean): Promise<void> {
    await edit.removeRelationship(relationshipId, erase);
    await this.load(id);
  }

  async restoreRelationship(id: number, relationshipId: number): Promise<void> {
    await edit.restoreRelationship(relationshipId);
    await this.load(id);
  }

  forget(id: number, erase: boolean): Promise<void> {
    return service.removeEntity(id, erase);
  }

  restore(id: number): Promise<void> {
    return service.restoreEntity(id);
  }
}

/** One note: where it came from, what happened to it, and its correction. */
export class NoteEditor {
  detail = $state.raw<NoteDetail | null>(null);
  error = $state<string | null>(null);

  async load(id: number): Promise<void> {
    await this.#guard(async () => (this.detail = await service.loadNote(id)));
  }

  async save(id: number, note: string, eventDate: string): Promise<boolean> {
    return this.#guard(async () => {
      await service.changeNote(id, note, eventDate);
      this.detail = await service.loadNote(id);
    });
  }

  forget(id: number, erase: boolean): Promise<boolean> {
    return this.#guard(() => service.removeNote(id, erase));
  }

  /** Bring a forgotten note back; the refusal of the server is thrown, its dialog is closed. */
  restore(id: number): Promise<void> {
    return service.restoreNote(id);
  }

  async #guard(work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
      this.error = null;
      return true;
    } catch (error) {
      this.error = describe(error);
      return false;
    }
  }
}

export function notesOfRelationship(id: number): Promise<Note[]> {
  return service.relationshipNotes(id);
}
