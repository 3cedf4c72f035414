// Server-sent events over fetch: the browser's own reader can neither POST nor say where it left off.
import { EventSourceParserStream } from 'eventsource-parser/stream';

import { reportUnauthorised } from './client';
import { ApiError, messageOf } from './errors';
import type { TurnEvent } from './wire';

export interface Received {
  /** `<turnId>-<n>`, where to go on after a lost connection; undefined when the server numbers nothing. */
  id: string | undefined;
  event: TurnEvent;
}

const NAMES: ReadonlySet<string> = new Set<TurnEvent['name']>([
  'reasoning',
  'text',
  'tool_call',
  'tool_result',
  'tool_approval',
  'tool_approval_result',
  'retry',
  'usage',
  'context',
  'memory',
  'compaction',
  'stopped',
  'done',
  'error',
]);

/** Open a stream; refused before the first byte → ApiError with the server's message, 204 → null. */
export async function openStream(
  url: string,
  init: RequestInit,
): Promise<AsyncGenerator<Received> | null> {
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw ApiError.unreachable(cause);
  }
  if (!response.ok) {
    if (response.status === 401) reportUnauthorised();
    throw new ApiError(response.status, messageOf(await bodyOf(response), response.statusText));
  }
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
  if (response.status === 204 || !response.body || !isStream) {
    await response.body?.cancel();
    return null;
  }
  return decode(response.body);
}

async function bodyOf(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    return null; // not JSON: the status text speaks for it
  }
}

/** Events in order of arrival. Unknown names are skipped: a newer server may say more than we know. */
export async function* decode(body: ReadableStream<Uint8Array>): AsyncGenerator<Received> {
  const reader = body
    .pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
    .pipeThrough(new EventSourceParserStream())
    .getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      if (!value.event || !NAMES.has(value.event)) continue;
      const event = { name: value.event, data: JSON.parse(value.data) as unknown } as TurnEvent;
      yield { id: value.id || undefined, event };
    }
  } finally {
    reader.cancel().catch(() => undefined); // the connection may be gone already
  }
}
