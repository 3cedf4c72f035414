// The long-term memory: looking, correcting, forgetting, moving in and out.
import { client, unwrap } from '../api/client';

export const exportAddress = '/api/eltm/export';
export const PAGE = 100;

export function searchMemory(q: string) {
  return unwrap(client.GET('/api/eltm/search', { params: { query: { q, limit: 30 } } }));
}

export function listEntities(offset: number) {
  return unwrap(client.GET('/api/eltm/entities', { params: { query: { limit: PAGE, offset } } }));
}

export function loadEntity(id: number) {
  return unwrap(
    client.GET('/api/eltm/entities/{entity_id}', { params: { path: { entity_id: id } } }),
  );
}

export function entityNotes(id: number, offset: number) {
  return unwrap(
    client.GET('/api/eltm/entities/{entity_id}/notes', {
      params: { path: { entity_id: id }, query: { limit: PAGE, offset } },
    }),
  );
}

export function entityRelationships(id: number) {
  return unwrap(
    client.GET('/api/eltm/entities/{entity_id}/relationships', {
      params: { path: { entity_id: id }, query: { includeInvalid: 'true' as const } },
    }),
  );
}

export function relationshipNotes(id: number) {
  return unwrap(
    client.GET('/api/eltm/relationships/{relationship_id}/notes', {
      params: { path: { relationship_id: id }, query: { limit: PAGE, offset: 0 } },
    }),
  );
}

export function loadNote(id: number) {
  return unwrap(client.GET('/api/eltm/notes/{note_id}', { params: { path: { note_id: id } } }));
}

export async function changeNote(id: number, note: string, eventDate: string): Promise<void> {
  await unwrap(
    client.PATCH('/api/eltm/notes/{note_id}', {
      params: { path: { note_id: id } },
      body: { note, eventDate },
    }),
  );
}

/** Forget (reversible), or erase for good. */
export async function removeNote(id: number, erase: boolean): Promise<void> {
  const query = erase ? { erase: 'true' as const } : {};
  await unwrap(
    client.DELETE('/api/eltm/notes/{note_id}', { params: { path: { note_id: id }, query } }),
  );
}

export async function restoreNote(id: number): Promise<void> {
  await unwrap(
    client.POST('/api/eltm/notes/{note_id}/restore', { params: { path: { note_id: id } } }),
  );
}

export async function removeEntity(id: number, erase: boolean): Promise<void> {
  const query = erase ? { erase: 'true' as const } : {};
  await unwrap(
    client.DELETE('/api/eltm/entities/{entity_id}', { params: { path: { entity_id: id }, query } }),
  );
}

export function listJobs() {
  return unwrap(client.GET('/api/eltm/jobs'));
}

export async function retryJob(id: number): Promise<void> {
  await unwrap(client.POST('/api/eltm/jobs/{job_id}/retry', { params: { path: { job_id: id } } }));
}

export async function deleteJob(id: number): Promise<void> {
  await unwrap(client.DELETE('/api/eltm/jobs/{job_id}', { params: { path: { job_id: id } } }));
}

export async function digest(text: string): Promise<void> {
  await unwrap(client.POST('/api/eltm/digest', { body: { parts: [{ type: 'text', text }] } }));
}

export function replayStatus() {
  return unwrap(client.GET('/api/eltm/replay'));
}

/** Replay what a file holds; the server says whether it is an exported chat. */
export function startReplay(file: unknown) {
  return unwrap(client.POST('/api/eltm/replay', { body: file as never }));
}

/** Import what a file holds; the server says whether it is an exported memory. */
export function importMemory(file: unknown, overwrite: boolean) {
  const query = { overwriteAttr: overwrite ? ('true' as const) : ('false' as const) };
  // The route reads its body as a stream, so the API's description has no type for it.
  const body = file as never;
  return unwrap(client.POST('/api/eltm/import', { params: { query }, body }));
}

export async function restoreEntity(id: number): Promise<void> {
  await unwrap(
    client.POST('/api/eltm/entities/{entity_id}/restore', { params: { path: { entity_id: id } } }),
  );
}
