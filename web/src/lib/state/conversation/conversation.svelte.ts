// The open chat: which one it is, what is stored in it, what is being written, and the turn that runs in it.
import type { RunState } from '../../api/wire';
import * as chats from '../../services/chats';
import { runState } from '../../services/turns';
import type { Catalog } from '../catalog.svelte';
import type { ChatList } from '../chatList.svelte';
import type { Preferences } from '../preferences.svelte';
import { Choice } from './choice.svelte';
import { Draft } from './draft.svelte';
import { History } from './history.svelte';
import type { Round } from './rounds';
import { ChatTurn } from './turn.svelte';

interface Parts {
  catalog: Catalog;
  chats: ChatList;
  preferences: Preferences;
  /** Called when sending made a new chat. */
  onCreated: (id: string) => void;
}

export class Conversation {
  readonly draft = new Draft();
  readonly history = new History();
  readonly choice: Choice;
  readonly turn: ChatTurn;
  chatId = $state<string | null>(null);
  loading = $state(false);
  readonly #parts: Parts;
  #abort = new AbortController();
  // What the list said of this chat when its messages were read: another value means that they have changed.
  #seen: string | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.choice = new Choice(parts.catalog, parts.chats, parts.preferences);
    this.turn = new ChatTurn({
      draft: this.draft,
      history: this.history,
      choice: this.choice,
      chats: parts.chats,
      preferences: parts.preferences,
      chatId: () => this.chatId,
      create: () => this.#create(),
      signal: () => this.#abort.signal,
      onended: () => this.#look(),
      onconflict: async () => {
        await parts.chats.refresh();
        await this.catchUp();
      },
    });
  }

  /** Stored rounds that stay on the page while the live turn replaces the rest. */
  get rounds(): Round[] {
    const { live, pending } = this.turn;
    const { rounds } = this.history;
    if (!live || !pending) return rounds;
    return rounds.filter((round) => (round.user?.index ?? -1) < pending.from);
  }

  get busy(): boolean {
    return this.turn.live !== null;
  }

  /** Show a chat, or the empty page for a new one. */
  async open(chatId: string | null): Promise<void> {
    this.close();
    this.chatId = chatId;
    this.draft.open(chatId);
    this.choice.preselect(chatId, []);
    if (chatId === null) return;
    const signal = this.#abort.signal;
    this.loading = true;
    const run = await this.#read(chatId, signal);
    if (signal.aborted) return;
    this.loading = false;
    if (!run) return;
    this.choice.preselect(chatId, this.history.rounds);
    await this.turn.goOn(chatId, run);
  }

  /** Look whether another browser wrote here, or whether an answer came while the connection was gone. */
  async catchUp(): Promise<void> {
    const { chatId } = this;
    if (chatId === null || this.busy || this.loading) return;
    const known = this.#parts.chats.get(chatId);
    const changed = known?.live || known?.updatedAt !== this.#seen;
    if (!changed && !this.turn.lost && !this.history.error) return;
    const run = await this.#read(chatId, this.#abort.signal);
    if (run && !this.busy) await this.turn.goOn(chatId, run);
  }

  choose(choice: { model?: string; personaId?: number }): void {
    if (choice.model !== undefined) this.choice.modelId = choice.model;
    if (choice.personaId !== undefined) this.choice.personaId = choice.personaId;
    this.choice.keep(this.chatId);
  }

  /** Send what the composer holds. */
  async sendDraft(): Promise<void> {
    const { text, images } = this.draft;
    if (this.busy || this.draft.empty) return;
    this.draft.clear();
    await this.turn.send({ text: text.trim(), images, from: this.#length, replaces: false });
  }

  async sendText(text: string): Promise<void> {
    if (this.busy) return;
    await this.turn.send({ text, images: [], from: this.#length, replaces: false });
  }

  /** Answer a stored message again, with other words if given. The old answer stands until the new one is stored. */
  async replace(round: Round, text?: string): Promise<void> {
    if (this.busy || !round.user) return;
    const { index, images } = round.user;
    await this.turn.send({ text: text ?? round.user.text, images, from: index, replaces: true });
  }

  async truncate(index: number): Promise<void> {
    const { chatId } = this;
    if (!chatId) return;
    await chats.truncate(chatId, index, this.#length);
    this.turn.failure = null;
    await this.history.load(chatId, this.#abort.signal);
  }

  /** A new chat with the history up to an answer. Returns its id. */
  async fork(index: number): Promise<string | null> {
    if (!this.chatId) return null;
    const chat = await chats.fork(this.chatId, index, this.#length);
    await this.#parts.chats.refresh();
    return chat.id;
  }

  /** Stop looking: a turn that runs goes on without this page. */
  close(): void {
    this.#abort.abort();
    this.#abort = new AbortController();
    this.chatId = null;
    this.history.clear();
    this.turn.clear();
    this.loading = false;
    this.#seen = undefined;
  }

  get #length(): number {
    return this.history.messages.length;
  }

  #look(): void {
    this.#seen = this.#parts.chats.get(this.chatId)?.updatedAt;
  }

  async #create(): Promise<string> {
    const id = await this.#parts.chats.create();
    this.chatId = id;
    this.draft.moveTo(id);
    this.#parts.onCreated(id);
    return id;
  }

  /** Read the state of the chat and its messages; null when that failed, which the page shows. */
  async #read(chatId: string, signal: AbortSignal): Promise<RunState | null> {
    try {
      // The state first: a turn that ends between the two reads is then in the messages.
      const run = await runState(chatId);
      await this.history.load(chatId, signal);
      if (signal.aborted) return null;
      this.#look();
      return run;
    } catch (error) {
      if (!signal.aborted) this.history.fail(error);
      return null;
    }
  }
}
