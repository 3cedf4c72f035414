// Personas: the list, and what can be done with it.
import { describe } from '../api/errors';
import type { Persona, PersonaFile, PersonaInput } from '../api/types';
import * as service from '../services/personas';

export class Personas {
  readonly exportAddress = service.exportAddress;
  items = $state.raw<Persona[]>([]);
  loaded = $state(false);
  error = $state<string | null>(null);

  async load(): Promise<void> {
    try {
      this.items = await service.listPersonas();
      this.error = null;
    } catch (error) {
      this.error = describe(error);
    } finally {
      this.loaded = true;
    }
  }

  nameOf(id: number): string | undefined {
    return this.items.find((persona) => persona.id === id)?.name;
  }

  /** Create (id null) or replace; the refusal of the server is thrown. */
  async save(id: number | null, input: PersonaInput): Promise<Persona> {
    const saved = await (id === null
      ? service.createPersona(input)
      : service.replacePersona(id, input));
    await this.load();
    return saved;
  }

  async remove(id: number): Promise<void> {
    await service.deletePersona(id);
    await this.load();
  }

  async importFile(file: PersonaFile) {
    const split = await service.importPersonas(file);
    await this.load();
    return split;
  }
}
