// The stored messages of the open chat.
import { ApiError, describe } from '../../api/errors';
import type { Message } from '../../api/types';
import { t } from '../../i18n';
import * as chats from '../../services/chats';
import { roundsOf, type Round } from './rounds';

export class History {
  messages = $state.raw<Message[]>([]);
  error = $state<string | null>(null);
  readonly rounds: Round[] = $derived(roundsOf(this.messages));

  clear(): void {
    this.messages = [];
    this.error = null;
  }

  /** Read the messages; the refusal of the server is thrown. An aborted reading changes nothing. */
  async load(chatId: string, signal: AbortSignal): Promise<void> {
    const messages = await chats.loadMessages(chatId);
    // An unknown chat has no messages either; only another route tells the two apart.
    if (messages.length === 0) await chats.assertExists(chatId);
    if (signal.aborted) return;
    this.messages = messages;
    this.error = null;
  }

  /** Read the messages, show why if that fails; whether it went well. */
  async tryLoad(chatId: string, signal: AbortSignal): Promise<boolean> {
    try {
      await this.load(chatId, signal);
      return true;
    } catch (error) {
      if (!signal.aborted) this.fail(error);
      return false;
    }
  }

  /** Show why the messages could not be read. */
  fail(error: unknown): void {
    // 400: an address with something else in the place of an id.
    const gone = error instanceof ApiError && [400, 404].includes(error.status);
    this.error = gone ? t.chat.gone : `${t.chat.loadFailed} ${describe(error)}`;
  }

  /** Whether the history ends with a message of these words, which `before` did not. */
  gained(text: string, before: readonly Message[]): boolean {
    const last = this.rounds.at(-1)?.user;
    if (!last || last.text !== text) return false;
    const old = roundsOf(before).at(-1)?.user;
    return last.createdAt !== old?.createdAt || last.index !== old?.index;
  }
}
