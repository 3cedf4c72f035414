// Erasing memories by what is in them or by their days: first counted, then done.
import { describe } from '../api/errors';
import type { EraseTarget, Erasure } from '../api/types';
import { erase } from '../services/memoryEdit';

export class Erasing {
  /** What would be erased, or was. */
  found = $state.raw<Erasure | null>(null);
  done = $state(false);
  busy = $state(false);
  error = $state<string | null>(null);

  count(target: EraseTarget): Promise<void> {
    return this.#run(target, false, true);
  }

  erase(target: EraseTarget, includeChats: boolean): Promise<void> {
    return this.#run(target, includeChats, false);
  }

  /** Forget the count: it was of another target. */
  clear(): void {
    this.found = null;
    this.done = false;
    this.error = null;
  }

  async #run(target: EraseTarget, includeChats: boolean, dryRun: boolean): Promise<void> {
    this.clear();
    this.busy = true;
    try {
      this.found = await erase(target, includeChats, dryRun);
      this.done = !dryRun;
    } catch (error) {
      this.error = describe(error);
    } finally {
      this.busy = false;
    }
  }
}
