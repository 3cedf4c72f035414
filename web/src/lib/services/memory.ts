// The long-term memory: looking, correcting, forgetting, moving in and out.
import { client, unwrap } from '../api/client';
import type { ChatExport } from '../api/types';

export const exportAddress = '/api/eltm/export';
export const PAGE = 100;

export function searchMemory(q: string) {
  return unwrap(client.GET('/api/eltm/search', { params: { query: { q, limit: 30 } } }));
}

export function listEntities(offset: number) {
  return unwrap(client.GET('/api/eltm/entities', { params: { query: { limit: PAGE, offset } } }));
}

export function loadEntity(id: number) {
  return unwrap(client.GET('/api/eltm/entities/{id}', { params: { path: { id } } }));
}

export function entityNotes(id: number, offset: number) {
  return unwrap(
    client.GET('/api/eltm/entities/{id}/notes', {
      params: { path: { id }, query: { limit: PAGE, offset } },
    }),
  );
}

export function entityRelationships(id: number) {
  return unwrap(
    client.GET('/api/eltm/entities/{id}/relationships', {
      params: { path: { id }, query: { includeInvalid: true } },
    }),
  );
}

export function relationshipNotes(id: number) {
  return unwrap(
    client.GET('/api/eltm/relationships/{id}/notes', {
      params: { path: { id }, query: { limit: PAGE, offset: 0 } },
    }),
  );
}

export function loadNote(id: number) {
  return unwrap(client.GET('/api/eltm/notes/{id}', { params: { path: { id } } }));
}

export async function changeNote(id: number, note: string, eventDate: string): Promise<void> {
  await unwrap(
    client.PATCH('/api/eltm/notes/{id}', { params: { path: { id } }, body: { note, eventDate } }),
  );
}

/** Forget (reversible), or erase for good. */
export async function removeNote(id: number, erase: boolean): Promise<void> {
  const query = erase ? { erase } : {};
  await unwrap(client.DELETE('/api/eltm/notes/{id}', { params: { path: { id }, query } }));
}

export async function restoreNote(id: number): Promise<void> {
  await unwrap(client.POST('/api/eltm/notes/{id}/restore', { params: { path: { id } } }));
}

export async function removeEntity(id: number, erase: boolean): Promise<void> {
  const query = erase ? { erase } : {};
  await unwrap(client.DELETE('/api/eltm/entities/{id}', { params: { path: { id }, query } }));
}

export function listJobs() {
  return unwrap(client.GET('/api/eltm/jobs'));
}

export async function retryJob(id: number): Promise<void> {
  await unwrap(client.POST('/api/eltm/jobs/{id}/retry', { params: { path: { id } } }));
}

export async function deleteJob(id: number): Promise<void> {
  await unwrap(client.DELETE('/api/eltm/jobs/{id}', { params: { path: { id } } }));
}

export async function digest(text: string): Promise<void> {
  await unwrap(client.POST('/api/eltm/digest', { body: { parts: [{ type: 'text', text }] } }));
}

export function replayStatus() {
  return unwrap(client.GET('/api/eltm/replay'));
}

export function startReplay(file: ChatExport) {
  return unwrap(client.POST('/api/eltm/replay', { body: file }));
}

export function importMemory(file: Record<string, unknown>, overwriteAttr: boolean) {
  return unwrap(
    client.POST('/api/eltm/import', { params: { query: { overwriteAttr } }, body: file }),
  );
}
