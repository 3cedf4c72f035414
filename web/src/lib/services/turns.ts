// A turn: sending, following, stopping, deciding.
import { client, unwrap } from '../api/client';
import { openStream, type Received } from '../api/stream';
import type { SendRequest } from '../api/types';
import type { RunState } from '../api/wire';
import { t } from '../i18n';

const path = (id: string, rest: string) => `/api/chats/${encodeURIComponent(id)}/${rest}`;

/** Start a turn that survives this page and asks it for approvals. */
export async function send(
  id: string,
  request: SendRequest,
  signal: AbortSignal,
): Promise<AsyncGenerator<Received>> {
  const stream = await openStream(path(id, 'messages'), {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
    body: JSON.stringify({ ...request, detach: true, approvals: true }),
    signal,
  });
  if (!stream) throw new Error(t.turn.noStream);
  return stream;
}

/** Events of the live turn after `lastEventId`, or null when no turn is live. */
export function follow(
  id: string,
  lastEventId: string | undefined,
  signal: AbortSignal,
): Promise<AsyncGenerator<Received> | null> {
  const headers: Record<string, string> = { accept: 'text/event-stream' };
  if (lastEventId) headers['last-event-id'] = lastEventId;
  return openStream(path(id, 'run'), { headers, signal });
}

export async function runState(id: string): Promise<RunState> {
  const run = await unwrap(
    client.GET('/api/chats/{chat_id}/run', { params: { path: { chat_id: id } } }),
  );
  return run as RunState;
}

export async function stop(id: string, keepPartial: boolean): Promise<void> {
  await unwrap(
    client.POST('/api/chats/{chat_id}/stop', {
      params: { path: { chat_id: id } },
      body: { keepPartial },
    }),
  );
}

export async function decide(
  id: string,
  callId: string,
  decision: 'approve' | 'deny',
  scope: 'once' | 'chat',
): Promise<void> {
  await unwrap(
    client.POST('/api/chats/{chat_id}/approvals/{call_id}', {
      params: { path: { chat_id: id, call_id: callId } },
      body: { decision, scope },
    }),
  );
}
