import { describe, expect, it, vi } from 'vitest';

import { ApiError } from './errors';
import { decode, openStream, type Received } from './stream';

function body(text: string, size: number): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  return new ReadableStream({
    start(controller) {
      for (let at = 0; at < bytes.length; at += size)
        controller.enqueue(bytes.slice(at, at + size));
      controller.close();
    },
  });
}

async function all(stream: AsyncGenerator<Received>): Promise<Received[]> {
  const received: Received[] = [];
  for await (const one of stream) received.push(one);
  return received;
}

const wire =
  'event: comment\ndata: connected\n\n: ping\n\nid: t1-1\nevent: text\ndata: {"delta":"Grüße \u{1F30A}"}\n\n' +
  'event: future\ndata: {"x":1}\n\nid: t1-2\nevent: done\ndata: {}\n\n';

describe('the event stream', () => {
  it.each([1, 2, 3, 7, 4096])('reads the same events in pieces of %i bytes', async (size) => {
    expect(await all(decode(body(wire, size)))).toEqual([
      { id: 't1-1', event: { name: 'text', data: { delta: 'Grüße \u{1F30A}' } } },
      { id: 't1-2', event: { name: 'done', data: {} } },
    ]);
  });

  it('understands streams without numbers', async () => {
    const [first] = await all(decode(body('event: text\ndata: {"delta":"a"}\n\n', 5)));
    expect(first?.id).toBeUndefined();
  });

  it('gives the server’s words when it refuses', async () => {
    vi.stubGlobal(
      'fetch',
      async () => new Response('{"error":"This chat is busy."}', { status: 409 }),
    );
    await expect(openStream('/x', {})).rejects.toEqual(new ApiError(409, 'This chat is busy.'));
    vi.unstubAllGlobals();
  });

  it('is null when there is nothing to follow', async () => {
    vi.stubGlobal('fetch', async () => new Response(null, { status: 204 }));
    expect(await openStream('/x', {})).toBeNull();
    vi.unstubAllGlobals();
  });
});
