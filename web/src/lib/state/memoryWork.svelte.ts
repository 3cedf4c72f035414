// Work on the memory as a whole: waiting jobs, replay of an exported chat, digest, moving in and out.
import { describe } from '../api/errors';
import type { Job, ReplayStatus } from '../api/types';
import * as service from '../services/memory';

export class MemoryWork {
  readonly exportAddress = service.exportAddress;
  jobs = $state.raw<Job[]>([]);
  replay = $state.raw<ReplayStatus | null>(null);
  error = $state<string | null>(null);

  async load(): Promise<void> {
    try {
      [this.jobs, this.replay] = await Promise.all([service.listJobs(), service.replayStatus()]);
      this.error = null;
    } catch (error) {
      this.error = describe(error);
    }
  }

  async retry(id: number): Promise<void> {
    await service.retryJob(id);
    await this.load();
  }

  async drop(id: number): Promise<void> {
    await service.deleteJob(id);
    await this.load();
  }

  async startReplay(file: unknown): Promise<void> {
    this.replay = await service.startReplay(file);
  }

  digest(text: string): Promise<void> {
    return service.digest(text);
  }

  importFile(file: unknown, overwrite: boolean) {
    return service.importMemory(file, overwrite);
  }
}
