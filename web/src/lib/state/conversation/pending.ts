// The message that is being answered. The brain stores it only with its answer, so a reload needs it from here.
import { readJson, write } from '../../services/storage';

export interface Pending {
  text: string;
  images: string[];
  /** The history from here on is hidden while the turn runs. */
  from: number;
  replaces: boolean;
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
