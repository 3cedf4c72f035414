// The turn of the open chat: from sending a message to its stored answer, and how the last one ended.
import { ApiError, describe } from '../../api/errors';
import type { Received } from '../../api/stream';
import type { RunState } from '../../api/wire';
import { t } from '../../i18n';
import * as turns from '../../services/turns';
import type { ChatList } from '../chatList.svelte';
import type { Preferences } from '../preferences.svelte';
import type { Choice } from './choice.svelte';
import type { Draft } from './draft.svelte';
import { followTurn, type Ending } from './follower';
import type { History } from './history.svelte';
import { LiveTurn, type TurnFacts } from './live.svelte';
import { nameNewChat } from './naming';
import { dropPending, keepPending, pendingOf, readPending, type Pending } from './pending';
import type { Segment } from './rounds';

export interface Failure {
  message: string;
  /** What had arrived of the answer before it failed. */
  partial: Segment[];
  /** Do the same again; null when the words went back to the composer. */
  again: (() => void) | null;
}

/** What a turn needs of the chat that it runs in. */
export interface Surroundings {
  readonly draft: Draft;
  readonly history: History;
  readonly choice: Choice;
  readonly chats: ChatList;
  readonly preferences: Preferences;
  chatId: () => string | null;
  /** Make the chat that the first message goes to. */
  create: () => Promise<string>;
  /** Aborted when another chat is opened. */
  signal: () => AbortSignal;
  /** The list of chats has been read again after an answer. */
  onended: () => void;
  /** The chat is busy with something that this page does not show. */
  onconflict: () => Promise<void>;
}

export class ChatTurn {
  live = $state<LiveTurn | null>(null);
  /** The message that the live turn answers. */
  pending = $state.raw<Pending | null>(null);
  failure = $state.raw<Failure | null>(null);
  sendError = $state<string | null>(null);
  facts = $state.raw<TurnFacts | null>(null);
  /** Went back to the composer because its answer was lost, which does not say that there is none. */
  lost: Pending | null = null;
  readonly #of: Surroundings;

  constructor(surroundings: Surroundings) {
    this.#of = surroundings;
  }

  /** Forget everything: another chat is opened. */
  clear(): void {
    this.live = null;
    this.pending = null;
    this.failure = null;
    this.sendError = null;
    this.facts = null;
    this.lost = null;
  }

  async send(pending: Pending): Promise<void> {
    const { choice, draft, chats } = this.#of;
    const signal = this.#of.signal();
    this.clear();
    if (!choice.modelId) {
      draft.restore(pending.text, pending.images);
      this.sendError = t.composer.noModel;
      return;
    }
    const live = new LiveTurn();
    this.live = live;
    this.pending = pending;
    let stream: AsyncGenerator<Received>;
    let chatId = this.#of.chatId();
    try {
      chatId ??= await this.#of.create();
      choice.keep(chatId);
      keepPending(chatId, pending);
      stream = await turns.send(chatId, this.#request(pending), signal);
    } catch (error) {
      if (!signal.aborted) await this.#refused(chatId, pending, error);
      return;
    }
    chats.markLive(chatId, true);
    await this.#follow(chatId, live, stream);
  }

  /** Go on with what the server tells of the chat: a turn that runs is joined, one that has ended is settled. */
  async goOn(chatId: string, run: RunState): Promise<void> {
    const own = readPending(chatId);
    if (run.state === 'idle') {
      if (own) this.#settle(chatId, own);
      return;
    }
    const live = new LiveTurn();
    this.live = live;
    this.failure = null;
    this.pending = pendingOf(run, this.#of.history.messages.length, own);
    await this.#follow(chatId, live, null);
  }

  /** End the running turn; what has been written of the answer is kept if there is any and it is wanted. */
  async stop(keep: boolean): Promise<void> {
    const { live } = this;
    const chatId = this.#of.chatId();
    if (!live || !chatId || live.stopping) return;
    live.stopping = true;
    try {
      await turns.stop(chatId, keep && live.hasText);
    } catch (error) {
      live.stopping = false;
      // 409: it ended by itself just now, and its stream says so.
      if (!isConflict(error)) this.sendError = describe(error);
    }
  }

  async decide(
    callId: string,
    decision: 'approve' | 'deny',
    scope: 'once' | 'chat',
  ): Promise<void> {
    const { live } = this;
    const chatId = this.#of.chatId();
    if (!live || !chatId) return;
    live.setApproval(callId, 'sending');
    try {
      await turns.decide(chatId, callId, decision, scope);
      live.setApproval(callId, decision);
    } catch (error) {
      live.setApproval(callId, 'pending', describe(error));
    }
  }

  #request(pending: Pending) {
    return {
      text: pending.text || null,
      images: pending.images.map((dataUrl) => ({ dataUrl })),
      model: this.#of.choice.modelId ?? '',
      personaId: this.#of.choice.personaId,
      ...(pending.replaces && { replaceFrom: pending.from }),
    };
  }

  /** The server said no before anything ran: nothing is lost, and its message stands at the composer. */
  async #refused(chatId: string | null, pending: Pending, error: unknown): Promise<void> {
    this.live = null;
    this.pending = null;
    if (chatId) dropPending(chatId);
    if (!pending.replaces) this.#of.draft.restore(pending.text, pending.images);
    this.sendError = describe(error);
    if (isConflict(error)) await this.#of.onconflict();
  }

  async #follow(
    chatId: string,
    live: LiveTurn,
    stream: AsyncGenerator<Received> | null,
  ): Promise<void> {
    const signal = this.#of.signal();
    const ending = await followTurn(chatId, live, stream, signal);
    if (ending && !signal.aborted) await this.#finish(chatId, live, ending, signal);
  }

  async #finish(
    chatId: string,
    live: LiveTurn,
    ending: Ending,
    signal: AbortSignal,
  ): Promise<void> {
    const { history, chats, preferences } = this.#of;
    live.flush();
    const { pending } = this;
    const before = history.messages;
    const reloaded = await this.#reload(chatId, ending, signal);
    if (signal.aborted) return;
    this.live = null;
    this.pending = null;
    chats.markLive(chatId, false);
    const gained = reloaded && pending !== null && history.gained(pending.text, before);
    const stored = ending.kind === 'done' || gained;
    if (stored) this.#succeed(live);
    else this.#fail(live, ending, pending);
    await chats.refresh();
    if (signal.aborted) return;
    this.#of.onended();
    const first = stored && pending?.from === 0 && preferences.autoTitle;
    if (first) await nameNewChat(chats, chatId, pending.text);
  }

  /** Read what the turn left in the history; whether that went well. */
  async #reload(chatId: string, ending: Ending, signal: AbortSignal): Promise<boolean> {
    const { history } = this.#of;
    const reloaded = await history.tryLoad(chatId, signal);
    if (signal.aborted) return reloaded;
    if (reloaded) dropPending(chatId);
    // The failure says it already.
    else if (ending.kind === 'lost') history.error = null;
    return reloaded;
  }

  #succeed(live: LiveTurn): void {
    const { draft } = this.#of;
    this.facts = $state.snapshot(live.facts) as TurnFacts;
    if (this.lost && draft.text.trim() === this.lost.text) draft.clear();
    this.lost = null;
  }

  #fail(live: LiveTurn, ending: Ending, pending: Pending | null): void {
    const back = pending && !pending.replaces && !pending.elsewhere;
    if (back) this.#of.draft.restore(pending.text, pending.images);
    if (ending.kind === 'lost') this.lost = pending;
    const message = live.stopped ? t.turn.stoppedNothingKept : failureText(ending);
    const again = pending ? () => void this.#again(pending) : null;
    const partial = $state.snapshot(live.segments) as Segment[];
    this.failure = { message, partial, again };
  }

  async #again(pending: Pending): Promise<void> {
    const { draft } = this.#of;
    if (this.live) return;
    if (!pending.replaces && draft.text.trim() === pending.text) draft.clear();
    await this.send(pending);
  }

  /** A message of ours waited here and no turn runs: it was answered, or its words go back to the composer. */
  #settle(chatId: string, pending: Pending): void {
    const { draft, history } = this.#of;
    dropPending(chatId);
    this.lost = null;
    const last = history.rounds.at(-1)?.user;
    const answered = last?.text === pending.text && history.messages.length > pending.from;
    if (answered) {
      this.failure = null;
      // They went back to the composer when the connection was lost.
      if (draft.text.trim() === pending.text) draft.clear();
    }
    if (answered || pending.replaces) return;
    draft.restore(pending.text, pending.images);
    this.failure = { message: t.turn.endedWhileAway, partial: [], again: null };
  }
}

const isConflict = (error: unknown) => error instanceof ApiError && error.status === 409;

function failureText(ending: Ending): string {
  if (ending.kind === 'error') return ending.message;
  if (ending.kind === 'lost') return `${t.turn.connectionLost} ${ending.message}`.trim();
  return t.turn.endedUnstored;
}
