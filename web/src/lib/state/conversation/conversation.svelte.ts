// The open chat: its stored messages, the turn that runs in it, and what went wrong.
import { ApiError, describe } from '../../api/errors';
import type { Received } from '../../api/stream';
import type { Message } from '../../api/types';
import * as chats from '../../services/chats';
import * as turns from '../../services/turns';
import { t } from '../../i18n';
import type { Catalog } from '../catalog.svelte';
import type { ChatList } from '../chatList.svelte';
import type { Preferences } from '../preferences.svelte';
import { Draft } from './draft.svelte';
import { followTurn, type Ending } from './follower';
import { LiveTurn, type TurnFacts } from './live.svelte';
import { dropPending, keepPending, readPending, type Pending } from './pending';
import { roundsOf, type Round, type Segment } from './rounds';

export interface Failure {
  message: string;
  /** What had arrived of the answer before it failed. */
  partial: Segment[];
  /** Do the same again; null when the words went back to the composer. */
  again: (() => void) | null;
}

interface Parts {
  catalog: Catalog;
  chats: ChatList;
  preferences: Preferences;
  /** Called when sending made a new chat. */
  onCreated: (id: string) => void;
}

export class Conversation {
  readonly draft = new Draft();
  chatId = $state<string | null>(null);
  messages = $state.raw<Message[]>([]);
  loading = $state(false);
  loadError = $state<string | null>(null);
  live = $state<LiveTurn | null>(null);
  /** The message that the live turn answers; null when it was sent from elsewhere. */
  pending = $state.raw<Pending | null>(null);
  failure = $state.raw<Failure | null>(null);
  sendError = $state<string | null>(null);
  facts = $state.raw<TurnFacts | null>(null);
  modelId = $state<string | null>(null);
  personaId = $state(0);
  readonly stored: Round[] = $derived(roundsOf(this.messages));
  readonly #parts: Parts;
  #abort = new AbortController();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Stored rounds that stay on the page while the live turn replaces the rest. */
  get rounds(): Round[] {
    const { pending } = this;
    if (!this.live || !pending) return this.stored;
    return this.stored.filter((round) => (round.user?.index ?? -1) < pending.from);
  }

  get busy(): boolean {
    return this.live !== null;
  }

  /** Show a chat, or the empty page for a new one. */
  async open(chatId: string | null): Promise<void> {
    this.#leave();
    this.chatId = chatId;
    this.draft.open(chatId);
    this.#preselect();
    if (chatId === null) return;
    const signal = this.#abort.signal;
    this.loading = true;
    try {
      // The state first: a turn that ends between the two reads is then in the messages.
      const run = await turns.runState(chatId);
      await this.#reload(chatId, signal);
      if (signal.aborted) return;
      this.#preselect();
      if (run.state === 'running') await this.#join(chatId);
      else await this.#settleAbsence(chatId);
    } catch (error) {
      if (!signal.aborted) this.loadError = describe(error);
    } finally {
      if (!signal.aborted) this.loading = false;
    }
  }

  choose(choice: { model?: string; personaId?: number }): void {
    if (choice.model !== undefined) this.modelId = choice.model;
    if (choice.personaId !== undefined) this.personaId = choice.personaId;
    this.#keepChoice();
  }

  /** Send what the composer holds. */
  async sendDraft(): Promise<void> {
    const { text, images } = this.draft;
    if (this.busy || this.draft.empty) return;
    this.draft.clear();
    await this.#send({ text: text.trim(), images, from: this.messages.length, replaces: false });
  }

  async sendText(text: string): Promise<void> {
    if (this.busy) return;
    await this.#send({ text, images: [], from: this.messages.length, replaces: false });
  }

  /** Answer a stored message again, with other words if given. The old answer stands until the new one is stored. */
  async replace(round: Round, text?: string): Promise<void> {
    if (this.busy || !round.user) return;
    const { index, images } = round.user;
    await this.#send({ text: text ?? round.user.text, images, from: index, replaces: true });
  }

  /** End the running turn; what has been written of the answer is kept if there is any and it is wanted. */
  async stop(keep: boolean): Promise<void> {
    const { live, chatId } = this;
    if (!live || !chatId || live.stopping) return;
    live.stopping = true;
    try {
      await turns.stop(chatId, keep && live.hasText);
    } catch (error) {
      live.stopping = false;
      // 409: it ended by itself just now, and its stream says so.
      if (!(error instanceof ApiError && error.status === 409)) this.sendError = describe(error);
    }
  }

  async decide(
    callId: string,
    decision: 'approve' | 'deny',
    scope: 'once' | 'chat',
  ): Promise<void> {
    const { live, chatId } = this;
    if (!live || !chatId) return;
    live.setApproval(callId, 'sending');
    try {
      await turns.decide(chatId, callId, decision, scope);
      live.setApproval(callId, decision);
    } catch (error) {
      live.setApproval(callId, 'pending', describe(error));
    }
  }

  async truncate(index: number): Promise<void> {
    const { chatId } = this;
    if (!chatId) return;
    await chats.truncate(chatId, index, this.messages.length);
    this.failure = null;
    await this.#reload(chatId, this.#abort.signal);
  }

  /** A new chat with the history up to an answer. Returns its id. */
  async fork(index: number): Promise<string | null> {
    if (!this.chatId) return null;
    const chat = await chats.fork(this.chatId, index, this.messages.length);
    await this.#parts.chats.refresh();
    return chat.id;
  }

  /** Stop looking: a turn that runs goes on without this page. */
  close(): void {
    this.#leave();
  }

  async #send(pending: Pending): Promise<void> {
    const signal = this.#abort.signal;
    this.sendError = null;
    this.failure = null;
    this.facts = null;
    if (!this.modelId) {
      this.draft.restore(pending.text, pending.images);
      this.sendError = t.composer.noModel;
      return;
    }
    const live = new LiveTurn();
    this.live = live;
    this.pending = pending;
    let stream: AsyncGenerator<Received>;
    let chatId = this.chatId;
    try {
      chatId ??= await this.#create();
      this.#keepChoice();
      keepPending(chatId, pending);
      stream = await turns.send(chatId, this.#request(pending), signal);
    } catch (error) {
      if (!signal.aborted) this.#refused(chatId, pending, error);
      return;
    }
    this.#parts.chats.markLive(chatId, true);
    await this.#follow(chatId, live, stream);
  }

  #request(pending: Pending) {
    return {
      text: pending.text || null,
      images: pending.images.map((dataUrl) => ({ dataUrl })),
      model: this.modelId ?? '',
      personaId: this.personaId,
      ...(pending.replaces && { replaceFrom: pending.from }),
    };
  }

  async #create(): Promise<string> {
    const id = await this.#parts.chats.create();
    this.chatId = id;
    this.draft.open(id);
    this.#parts.onCreated(id);
    return id;
  }

  /** The server said no before anything ran: nothing is lost, and its message stands at the composer. */
  #refused(chatId: string | null, pending: Pending, error: unknown): void {
    this.live = null;
    this.pending = null;
    if (chatId) dropPending(chatId);
    if (!pending.replaces) this.draft.restore(pending.text, pending.images);
    this.sendError = describe(error);
  }

  async #join(chatId: string): Promise<void> {
    const live = new LiveTurn();
    this.live = live;
    this.pending = readPending(chatId);
    this.loading = false;
    await this.#follow(chatId, live, null);
  }

  async #follow(
    chatId: string,
    live: LiveTurn,
    stream: AsyncGenerator<Received> | null,
  ): Promise<void> {
    const signal = this.#abort.signal;
    const ending = await followTurn(chatId, live, stream, signal);
    if (ending && !signal.aborted) await this.#finish(chatId, live, ending);
  }

  async #finish(chatId: string, live: LiveTurn, ending: Ending): Promise<void> {
    const signal = this.#abort.signal;
    live.flush();
    const { pending } = this;
    const before = this.messages;
    const reloaded = await this.#tryReload(chatId, signal);
    if (signal.aborted) return;
    this.facts = $state.snapshot(live.facts) as TurnFacts;
    this.live = null;
    this.pending = null;
    this.#parts.chats.markLive(chatId, false);
    if (reloaded) dropPending(chatId);
    const stored =
      ending.kind === 'done' || (reloaded && pending !== null && this.#holds(pending, before));
    if (!stored) this.#fail(live, ending, pending);
    await this.#parts.chats.refresh();
    if (stored && !signal.aborted) await this.#nameIfNew(chatId, pending);
  }

  #fail(live: LiveTurn, ending: Ending, pending: Pending | null): void {
    if (pending && !pending.replaces) this.draft.restore(pending.text, pending.images);
    const message = live.stopped ? t.turn.stoppedNothingKept : failureText(ending);
    const again = pending ? () => void this.#again(pending) : null;
    const partial = $state.snapshot(live.segments) as Segment[];
    this.failure = { message, partial, again };
  }

  async #again(pending: Pending): Promise<void> {
    if (this.busy) return;
    if (!pending.replaces && this.draft.text.trim() === pending.text) this.draft.clear();
    await this.#send(pending);
  }

  /** Whether the history now holds the answered message that it did not hold before. */
  #holds(pending: Pending, before: readonly Message[]): boolean {
    const last = this.stored.at(-1)?.user;
    if (!last || last.text !== pending.text) return false;
    const old = roundsOf(before).at(-1)?.user;
    return last.createdAt !== old?.createdAt || last.index !== old?.index;
  }

  /** A message of ours waited here and no turn runs: it was answered, or its words go back to the composer. */
  async #settleAbsence(chatId: string): Promise<void> {
    const pending = readPending(chatId);
    if (!pending) return;
    dropPending(chatId);
    const last = this.stored.at(-1)?.user;
    const answered = last?.text === pending.text && this.messages.length > pending.from;
    if (answered || pending.replaces) return;
    this.draft.restore(pending.text, pending.images);
    this.failure = { message: t.turn.endedWhileAway, partial: [], again: null };
  }

  async #nameIfNew(chatId: string, pending: Pending | null): Promise<void> {
    const list = this.#parts.chats;
    const first = pending?.from === 0 && this.#parts.preferences.autoTitle;
    if (!first || list.get(chatId)?.title !== 'New chat') return;
    try {
      await list.generateTitle(chatId);
    } catch {
      // No title from the model: the message's own first words name the chat well enough.
      const title = pending.text.split('\n')[0]?.slice(0, 60).trim();
      if (title) await list.change(chatId, { title });
    }
  }

  async #tryReload(chatId: string, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#reload(chatId, signal);
      return true;
    } catch (error) {
      if (!signal.aborted) this.loadError = describe(error);
      return false;
    }
  }

  async #reload(chatId: string, signal: AbortSignal): Promise<void> {
    const messages = await chats.loadMessages(chatId);
    if (signal.aborted) return;
    this.messages = messages;
    this.loadError = null;
  }

  #preselect(): void {
    const { catalog, chats: list, preferences } = this.#parts;
    const kept = preferences.choiceOf(this.chatId);
    const last = preferences.choiceOf(null);
    const used = this.stored.findLast((round) => round.modelId)?.modelId;
    const known = (id: string | undefined) => catalog.get(id ?? null)?.id;
    this.modelId =
      known(kept.model) ??
      catalog.byRawId(used)?.id ??
      known(last.model) ??
      catalog.models[0]?.id ??
      null;
    this.personaId = kept.personaId ?? list.get(this.chatId)?.personaId ?? last.personaId ?? 0;
  }

  #keepChoice(): void {
    const choice = { personaId: this.personaId, ...(this.modelId && { model: this.modelId }) };
    this.#parts.preferences.keepChoice(this.chatId, choice);
  }

  #leave(): void {
    this.#abort.abort();
    this.#abort = new AbortController();
    this.chatId = null;
    this.messages = [];
    this.live = null;
    this.pending = null;
    this.failure = null;
    this.sendError = null;
    this.loadError = null;
    this.facts = null;
    this.loading = false;
  }
}

function failureText(ending: Ending): string {
  if (ending.kind === 'error') return ending.message;
  if (ending.kind === 'lost') return `${t.turn.connectionLost} ${ending.message}`.trim();
  return t.turn.endedUnstored;
}
