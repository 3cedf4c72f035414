// Personas as the brain keeps them.
import { client, unwrap } from '../api/client';
import type { PersonaFile, PersonaInput } from '../api/types';

export const exportAddress = '/api/personas/export';

export function listPersonas() {
  return unwrap(client.GET('/api/personas'));
}

export function createPersona(body: PersonaInput) {
  return unwrap(client.POST('/api/personas', { body }));
}

export function replacePersona(id: number, body: PersonaInput) {
  return unwrap(
    client.PUT('/api/personas/{persona_id}', { params: { path: { persona_id: id } }, body }),
  );
}

export async function deletePersona(id: number): Promise<void> {
  await unwrap(
    client.DELETE('/api/personas/{persona_id}', { params: { path: { persona_id: id } } }),
  );
}

export function importPersonas(body: PersonaFile) {
  return unwrap(client.POST('/api/personas/import', { body }));
}
