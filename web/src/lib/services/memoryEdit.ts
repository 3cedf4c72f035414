// Correcting the long-term memory: names, attributes, relationships, duplicates, and erasing by what is in it.
import { client, unwrap } from '../api/client';
import type { EraseTarget } from '../api/types';

export function changeEntity(id: number, body: { name?: string; category?: string }) {
  return unwrap(
    client.PATCH('/api/eltm/entities/{entity_id}', { params: { path: { entity_id: id } }, body }),
  );
}

export function setAttribute(id: number, key: string, value: string) {
  const params = { path: { entity_id: id, key } };
  return unwrap(
    client.PUT('/api/eltm/entities/{entity_id}/attributes/{key}', { params, body: { value } }),
  );
}

export function deleteAttribute(id: number, key: string) {
  const params = { path: { entity_id: id, key } };
  return unwrap(client.DELETE('/api/eltm/entities/{entity_id}/attributes/{key}', { params }));
}

/** Fold another entity into this one, whose name stays. */
export function mergeEntities(id: number, loserId: number) {
  const params = { path: { entity_id: id } };
  return unwrap(client.POST('/api/eltm/entities/{entity_id}/merge', { params, body: { loserId } }));
}

export function setValid(relationshipId: number, valid: boolean) {
  const params = { path: { relationship_id: relationshipId } };
  return unwrap(
    client.PATCH('/api/eltm/relationships/{relationship_id}', { params, body: { valid } }),
  );
}

/** Forget (reversible), or erase for good. */
export async function removeRelationship(id: number, erase: boolean): Promise<void> {
  const query = erase ? { erase: 'true' as const } : {};
  const params = { path: { relationship_id: id }, query };
  await unwrap(client.DELETE('/api/eltm/relationships/{relationship_id}', { params }));
}

export async function restoreRelationship(id: number): Promise<void> {
  const params = { path: { relationship_id: id } };
  await unwrap(client.POST('/api/eltm/relationships/{relationship_id}/restore', { params }));
}

/** Erase for good, or only count what would be. */
export function erase(target: EraseTarget, includeChats: boolean, dryRun: boolean) {
  return unwrap(client.POST('/api/eltm/erase', { body: { ...target, includeChats, dryRun } }));
}
