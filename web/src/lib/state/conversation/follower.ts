// Following one turn to its end, through lost connections.
import { ApiError, describe } from '../../api/errors';
import type { Received } from '../../api/stream';
import * as turns from '../../services/turns';
import type { LiveTurn } from './live.svelte';

export type Ending =
  | { kind: 'done' }
  | { kind: 'error'; message: string }
  /** The turn ended while nobody looked; the stored history tells how. */
  | { kind: 'gone' }
  | { kind: 'lost'; message: string };

const gone: Ending = { kind: 'gone' };
const PAUSES = [0, 400, 1000, 2500, 5000, 8000];

/** Read a stream to its terminal event. Null when it broke off before one. */
async function drain(
  live: LiveTurn,
  stream: AsyncGenerator<Received>,
  signal: AbortSignal,
): Promise<Ending | null> {
  for await (const { id, event } of stream) {
    if (signal.aborted) return null;
    live.reconnecting = false;
    if (id) live.lastEventId = id;
    live.apply(event);
    if (event.name === 'done') return { kind: 'done' };
    if (event.name === 'error') return { kind: 'error', message: event.data.message };
  }
  return null;
}

/**
 * Follow the turn of `chatId`, beginning with `stream` (null: join what runs there). A broken stream is joined
 * again, from the last event seen, with growing pauses. Aborting ends it quietly with null.
 */
export async function followTurn(
  chatId: string,
  live: LiveTurn,
  stream: AsyncGenerator<Received> | null,
  signal: AbortSignal,
): Promise<Ending | null> {
  let current = stream;
  let reason = '';
  for (let failures = 0; failures < PAUSES.length && !signal.aborted; failures++) {
    const seen = live.lastEventId;
    try {
      current ??= await join(chatId, live, signal);
      const ending = current === null ? gone : await drain(live, current, signal);
      if (ending) return ending;
    } catch (error) {
      if (isGone(error)) return gone;
      reason = describe(error);
    }
    current = null;
    if (live.lastEventId !== seen) failures = 0;
    live.reconnecting = true;
    await pause(PAUSES[failures] ?? 0, signal);
  }
  return signal.aborted ? null : { kind: 'lost', message: reason };
}

const isGone = (error: unknown) => error instanceof ApiError && error.status === 404;

function join(chatId: string, live: LiveTurn, signal: AbortSignal) {
  // Without a number to go on from, the server tells the turn from its start.
  if (!live.lastEventId) live.reset();
  return turns.follow(chatId, live.lastEventId, signal);
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });
}
