// The models that can be chosen.
import { describe } from '../api/errors';
import type { Model } from '../api/types';
import { listModels } from '../services/system';

export class Catalog {
  models = $state.raw<Model[]>([]);
  loaded = $state(false);
  error = $state<string | null>(null);

  async load(): Promise<void> {
    try {
      this.models = (await listModels()).filter((model) => !model.embedding);
      this.error = null;
    } catch (error) {
      this.error = describe(error);
    } finally {
      this.loaded = true;
    }
  }

  get(id: string | null): Model | undefined {
    return this.models.find((model) => model.id === id);
  }

  /** The catalog id of a provider's raw model id, as stored messages name it. */
  byRawId(raw: string | null | undefined): Model | undefined {
    if (!raw) return undefined;
    return this.models.find((model) => model.id.slice(model.id.indexOf('/') + 1) === raw);
  }
}
