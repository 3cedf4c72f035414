// Chats that were put out of the way.
import { describe } from '../api/errors';
import type { ChatInfo } from '../api/types';
import * as service from '../services/chats';

const ENOUGH = 50;

export class Archive {
  items = $state.raw<ChatInfo[]>([]);
  loaded = $state(false);
  error = $state<string | null>(null);
  #cursor: string | undefined;

  get hasMore(): boolean {
    return this.#cursor !== undefined;
  }

  /** Read the next archived chats; the server lists them among all others. */
  async load(more = false): Promise<void> {
    let cursor = more ? this.#cursor : undefined;
    const found: ChatInfo[] = [];
    try {
      do {
        const page = await service.listChats(cursor, 'archived');
        found.push(...page.chats.filter((chat) => chat.archived));
        cursor = page.nextCursor;
      } while (cursor && found.length < ENOUGH);
      this.items = more ? [...this.items, ...found] : found;
      this.#cursor = cursor;
      this.error = null;
    } catch (error) {
      this.error = describe(error);
    } finally {
      this.loaded = true;
    }
  }

  async restore(id: string): Promise<void> {
    await service.changeChat(id, { archived: false });
    this.#drop(id);
  }

  async remove(id: string, remember: boolean): Promise<void> {
    await service.deleteChat(id, remember);
    this.#drop(id);
  }

  #drop(id: string): void {
    this.items = this.items.filter((chat) => chat.id !== id);
  }
}
