// Tools and maintenance of the brain.
import { describe } from '../api/errors';
import type { ReembedStatus, ToolNamespace } from '../api/types';
import * as service from '../services/system';

export class Tools {
  namespaces = $state.raw<ToolNamespace[]>([]);
  loaded = $state(false);
  error = $state<string | null>(null);

  async load(): Promise<void> {
    try {
      this.namespaces = await service.listTools();
      this.error = null;
    } catch (error) {
      this.error = describe(error);
    } finally {
      this.loaded = true;
    }
  }

  async reconnect(namespace: string): Promise<void> {
    await service.reconnectTool(namespace);
    await this.load();
  }
}

export class Maintenance {
  enabled = $state<boolean | null>(null);
  reembed = $state.raw<ReembedStatus | null>(null);
  error = $state<string | null>(null);

  async load(): Promise<void> {
    await this.#guard(async () => {
      [this.enabled, this.reembed] = await Promise.all([
        service.maintenanceEnabled(),
        service.reembedStatus(),
      ]);
    });
  }

  async set(enabled: boolean): Promise<void> {
    await this.#guard(async () => (this.enabled = await service.setMaintenance(enabled)));
  }

  async startReembed(): Promise<void> {
    await this.#guard(async () => (this.reembed = await service.startReembed()));
  }

  async #guard(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
      this.error = null;
    } catch (error) {
      this.error = describe(error);
    }
  }
}
