// The message that is being answered. The brain stores it only with its answer.
import type { RunState } from '../../api/wire';
import { readJson, write } from '../../services/storage';
import { picturesOf, textOf } from './rounds';

export interface Pending {
  text: string;
  images: string[];
  /** The history from here on is hidden while the turn runs. */
  from: number;
  replaces: boolean;
  /** Sent by another browser, whose composer gets the words back if they are not answered. */
  elsewhere?: boolean;
}

export function keepPending(chatId: string, pending: Pending): void {
  const kept = write(`pending.${chatId}`, JSON.stringify(pending));
  // Pictures may be too much for the browser's storage: the words are worth keeping alone.
  if (!kept) write(`pending.${chatId}`, JSON.stringify({ ...pending, images: [] }));
}

export function readPending(chatId: string): Pending | null {
  return readJson<Pending>(`pending.${chatId}`);
}

export function dropPending(chatId: string): void {
  write(`pending.${chatId}`, null);
}

/** What a live turn answers, as the brain tells it; `length` is that of the stored history. */
export function pendingOf(
  run: Extract<RunState, { state: 'running' }>,
  length: number,
  own: Pending | null,
): Pending {
  const text = textOf(run.message);
  return {
    text,
    images: picturesOf(run.message),
    from: run.replaceFrom ?? length,
    replaces: run.replaceFrom !== null,
    elsewhere: own?.text !== text,
  };
}
