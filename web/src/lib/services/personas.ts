// Personas as the brain keeps them.
import { client, unwrap } from '../api/client';
import type { PersonaInput } from '../api/types';

export const exportAddress = '/api/personas/export';

export function listPersonas() {
  return unwrap(client.GET('/api/personas'));
}

export function createPersona(body: PersonaInput) {
  return unwrap(client.POST('/api/personas', { body }));
}

export function replacePersona(id: number, body: PersonaInput) {
  return unwrap(client.PUT('/api/personas/{id}', { params: { path: { id } }, body }));
}

export async function deletePersona(id: number): Promise<void> {
  await unwrap(client.DELETE('/api/personas/{id}', { params: { path: { id } } }));
}

export function importPersonas(body: PersonaInput[]) {
  return unwrap(client.POST('/api/personas/import', { body }));
}
