// Short messages at the edge of the page, for what has no better place.
import { describe } from '../api/errors';

export interface Notice {
  id: number;
  kind: 'info' | 'error';
  text: string;
  action?: { label: string; run: () => void };
}

export class Notices {
  items = $state<Notice[]>([]);
  #next = 1;

  say(text: string, action?: Notice['action']): void {
    this.#add({ kind: 'info', text, ...(action && { action }) }, 6000);
  }

  fail(error: unknown): void {
    this.#add({ kind: 'error', text: describe(error) }, 12000);
  }

  /** Run something and show its failure here. True when it went well. */
  async attempt(work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      this.fail(error);
      return false;
    }
  }

  dismiss(id: number): void {
    this.items = this.items.filter((item) => item.id !== id);
  }

  #add(notice: Omit<Notice, 'id'>, milliseconds: number): void {
    const id = this.#next++;
    this.items = [...this.items, { ...notice, id }];
    setTimeout(() => this.dismiss(id), milliseconds);
  }
}
