// The list of chats, newest first, page by page, and what is done to a chat from it.
import { describe } from '../api/errors';
import type { ChatChange, ChatInfo } from '../api/types';
import { t } from '../i18n';
import * as service from '../services/chats';

const REFRESH_WHILE_LIVE = 8000;

export class ChatList {
  items = $state.raw<ChatInfo[]>([]);
  loaded = $state(false);
  loading = $state(false);
  error = $state<string | null>(null);
  #cursor: string | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  get hasMore(): boolean {
    return this.loaded && this.#cursor !== undefined;
  }

  /** Read the first page again; chats of later pages stay. */
  async refresh(): Promise<void> {
    await this.#guard(async () => {
      const page = await service.listChats();
      const last = page.chats.at(-1)?.id;
      const { nextCursor } = page;
      const hadMore = this.items.some((chat) => last !== undefined && chat.id < last);
      const older = hadMore && nextCursor ? this.items.filter((chat) => chat.id < nextCursor) : [];
      this.items = [...page.chats, ...older];
      if (older.length === 0) this.#cursor = page.nextCursor;
    });
    this.#watchLive();
  }

  async loadMore(): Promise<void> {
    if (this.loading || !this.#cursor) return;
    await this.#guard(async () => {
      const page = await service.listChats(this.#cursor);
      this.items = [...this.items, ...page.chats.filter((chat) => !this.get(chat.id))];
      this.#cursor = page.nextCursor;
    });
  }

  get(id: string | null): ChatInfo | undefined {
    return this.items.find((chat) => chat.id === id);
  }

  titleOf(id: string | null): string {
    // Not every chat is in the list: archived ones, and those of pages that were not read yet.
    return id === null ? t.chats.new : (this.get(id)?.title ?? t.nav.chat);
  }

  async create(): Promise<string> {
    const id = await service.createChat();
    await this.refresh();
    return id;
  }

  async change(id: string, change: ChatChange): Promise<void> {
    this.#replace(await service.changeChat(id, change));
  }

  /** Take a chat out of the list, or put it back. */
  async archive(id: string, archived: boolean): Promise<void> {
    await service.changeChat(id, { archived });
    await this.refresh();
  }

  async generateTitle(id: string): Promise<void> {
    this.#replace(await service.generateTitle(id));
  }

  async remove(id: string, remember: boolean): Promise<void> {
    await service.deleteChat(id, remember);
    this.items = this.items.filter((chat) => chat.id !== id);
  }

  async importFile(file: unknown): Promise<string> {
    const chat = await service.importChat(file);
    await this.refresh();
    return chat.id;
  }

  exportAddressOf(id: string): string {
    return service.exportAddress(id);
  }

  markLive(id: string, live: boolean): void {
    this.items = this.items.map((chat) => (chat.id === id ? { ...chat, live } : chat));
  }

  stopWatching(): void {
    clearTimeout(this.#timer);
  }

  #replace(changed: ChatInfo): void {
    this.items = this.items.map((chat) =>
      chat.id === changed.id ? { ...chat, ...changed } : chat,
    );
  }

  #watchLive(): void {
    clearTimeout(this.#timer);
    if (!this.items.some((chat) => chat.live)) return;
    this.#timer = setTimeout(() => void this.refresh(), REFRESH_WHILE_LIVE);
  }

  async #guard(work: () => Promise<void>): Promise<void> {
    this.loading = true;
    try {
      await work();
      this.error = null;
    } catch (error) {
      this.error = describe(error);
    } finally {
      this.loading = false;
      this.loaded = true;
    }
  }
}
