import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Message } from '../../api/types';
import { Catalog } from '../catalog.svelte';
import { ChatList } from '../chatList.svelte';
import { Preferences } from '../preferences.svelte';
import { Conversation } from './conversation.svelte';

const meta = { inputTokens: 1, outputTokens: 1, totalTokens: 2, modelId: 'm' };
const asked = (text: string): Message => ({
  role: 'user',
  parts: [{ type: 'text', text }],
  createdAt: '2026-03-01T08:00:00Z',
});
const said = (text: string): Message => ({
  role: 'assistant',
  parts: [{ type: 'text', text }],
  meta,
  finishReason: 'stop',
});

const json = (body: unknown, status = 200) =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });
const events = (...lines: string[]) =>
  new Response(lines.map((line) => `${line}\n\n`).join(''), {
    headers: { 'content-type': 'text/event-stream' },
  });
const text = (n: number, delta: string) =>
  `id: t-${n}\nevent: text\ndata: ${JSON.stringify({ delta })}`;
const done = (n: number) => `id: t-${n}\nevent: done\ndata: {}`;
const failed = (n: number, message: string) =>
  `id: t-${n}\nevent: error\ndata: ${JSON.stringify({ message, type: 'X' })}`;

/** A server: answers by "METHOD path", each one function of the request. Unknown paths fail the test. */
class Server {
  history: Message[] = [];
  requests: string[] = [];
  routes: Record<string, (request: Request) => Response | Promise<Response>> = {
    'GET /api/models': () =>
      json([{ id: 'gw/m', vision: true, contextLength: 1, maxOutputTokens: 1 }]),
    'GET /api/chats': () => json({ chats: [{ id: '1-1', title: 'Named', personaId: 0 }] }),
    'POST /api/chats': () => json({ id: '1-1' }, 201),
    'GET /api/chats/1-1/chat': () => json(this.history),
    'GET /api/chats/1-1/run': () => json({ state: 'idle' }),
  };

  handle = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const request =
      input instanceof Request
        ? input
        : new Request(new URL(String(input), location.origin), withoutSignal(init));
    const name = `${request.method} ${new URL(request.url).pathname}`;
    this.requests.push(name);
    const route = this.routes[name];
    if (!route) throw new Error(`No answer for ${name}`);
    return route(request);
  };
}

// The page's and the runtime's abort signals are of different classes here.
function withoutSignal(init?: RequestInit): RequestInit {
  const rest = { ...init };
  delete rest.signal;
  return rest;
}

let server: Server;

async function opened(): Promise<Conversation> {
  const catalog = new Catalog();
  const conversation = new Conversation({
    catalog,
    chats: new ChatList(),
    preferences: new Preferences(),
    onCreated: () => undefined,
  });
  await catalog.load();
  await conversation.open('1-1');
  return conversation;
}

const shown = (conversation: Conversation) =>
  conversation.rounds.map((round) =>
    round.segments.map((segment) => ('text' in segment ? segment.text : segment.name)),
  );

describe('a conversation', () => {
  beforeEach(() => {
    server = new Server();
    vi.stubGlobal('fetch', server.handle);
  });
  afterEach(() => vi.unstubAllGlobals());

  it('sends, follows and shows what was stored', async () => {
    const conversation = await opened();
    let body: unknown;
    server.routes['POST /api/chats/1-1/messages'] = async (request) => {
      body = await request.json();
      server.history = [asked('hi'), said('hello')];
      return events(text(1, 'hel'), text(2, 'lo'), done(3));
    };
    conversation.draft.set(' hi ');
    await conversation.sendDraft();
    expect(body).toEqual({
      text: 'hi',
      images: [],
      model: 'gw/m',
      personaId: 0,
      detach: true,
      approvals: true,
    });
    expect(shown(conversation)).toEqual([['hello']]);
    expect(conversation.live).toBeNull();
    expect(conversation.draft.text).toBe('');
    expect(localStorage.getItem('daapu.pending.1-1')).toBeNull();
  });

  it('gives the words back when the server refuses', async () => {
    const conversation = await opened();
    server.routes['POST /api/chats/1-1/messages'] = () => json({ error: 'Busy.' }, 409);
    conversation.draft.set('hi');
    await conversation.sendDraft();
    expect(conversation.sendError).toBe('Busy.');
    expect(conversation.draft.text).toBe('hi');
    expect(conversation.live).toBeNull();
  });

  it('gives the words back when the turn fails, with what had arrived', async () => {
    const conversation = await opened();
    server.routes['POST /api/chats/1-1/messages'] = () =>
      events(text(1, 'part'), failed(2, 'Broken.'));
    conversation.draft.set('hi');
    await conversation.sendDraft();
    expect(conversation.failure).toMatchObject({
      message: 'Broken.',
      partial: [{ kind: 'text', text: 'part' }],
    });
    expect(conversation.draft.text).toBe('hi');
  });

  it('joins again from the last event after a broken stream', async () => {
    const conversation = await opened();
    let from: string | null = null;
    server.routes['POST /api/chats/1-1/messages'] = () => events(text(1, 'one '));
    server.routes['GET /api/chats/1-1/run'] = (request) => {
      from = request.headers.get('last-event-id');
      server.history = [asked('hi'), said('one two')];
      return events(text(2, 'two'), done(3));
    };
    conversation.draft.set('hi');
    await conversation.sendDraft();
    expect(from).toBe('t-1');
    expect(shown(conversation)).toEqual([['one two']]);
    expect(conversation.failure).toBeNull();
  });

  it('finds the stored answer when the turn ended while the connection was gone', async () => {
    const conversation = await opened();
    server.routes['POST /api/chats/1-1/messages'] = () => events(text(1, 'one'));
    server.routes['GET /api/chats/1-1/run'] = () => {
      server.history = [asked('hi'), said('one two')];
      return new Response(null, { status: 204 });
    };
    conversation.draft.set('hi');
    await conversation.sendDraft();
    expect(conversation.failure).toBeNull();
    expect(conversation.draft.text).toBe('');
  });

  it('says so when the turn ended unstored while the connection was gone', async () => {
    const conversation = await opened();
    server.routes['POST /api/chats/1-1/messages'] = () => events(text(1, 'one'));
    server.routes['GET /api/chats/1-1/run'] = () => new Response(null, { status: 204 });
    conversation.draft.set('hi');
    await conversation.sendDraft();
    expect(conversation.failure).not.toBeNull();
    expect(conversation.draft.text).toBe('hi');
  });

  it('joins a running turn when a chat is opened, with the message that it answers', async () => {
    localStorage.setItem(
      'daapu.pending.1-1',
      JSON.stringify({ text: 'hi', images: [], from: 0, replaces: false }),
    );
    let follow: (response: Response) => void = () => undefined;
    server.routes['GET /api/chats/1-1/run'] = (request) => {
      if (!request.headers.get('accept')?.includes('event-stream'))
        return json({ state: 'running', turnId: 't' });
      return new Promise((resolve) => (follow = resolve));
    };
    const conversation = await (async () => {
      const catalog = new Catalog();
      await catalog.load();
      return new Conversation({
        catalog,
        chats: new ChatList(),
        preferences: new Preferences(),
        onCreated: () => undefined,
      });
    })();
    const opening = conversation.open('1-1');
    await vi.waitFor(() => expect(conversation.pending?.text).toBe('hi'));
    server.history = [asked('hi'), said('hello')];
    follow(events(text(1, 'hello'), done(2)));
    await opening;
    expect(shown(conversation)).toEqual([['hello']]);
  });

  it('hides the old answer while a new one is written, and brings it back when that fails', async () => {
    server.history = [asked('a'), said('b'), asked('c'), said('d')];
    const conversation = await opened();
    let body: { replaceFrom?: number } = {};
    let during: string[][] = [];
    server.routes['POST /api/chats/1-1/messages'] = async (request) => {
      body = (await request.json()) as typeof body;
      during = shown(conversation);
      return events(failed(1, 'No.'));
    };
    const round = conversation.rounds[1];
    if (round) await conversation.replace(round, 'changed');
    expect(body.replaceFrom).toBe(2);
    expect(during).toEqual([['b']]);
    expect(shown(conversation)).toEqual([['b'], ['d']]);
    expect(conversation.draft.text).toBe('');
    expect(conversation.failure?.again).not.toBeNull();
  });

  it('lets go of the stream, not of the turn, when another chat is opened', async () => {
    const conversation = await opened();
    server.routes['POST /api/chats/1-1/messages'] = () => new Promise<Response>(() => undefined);
    conversation.draft.set('hi');
    void conversation.sendDraft();
    await vi.waitFor(() => expect(server.requests).toContain('POST /api/chats/1-1/messages'));
    await conversation.open(null);
    expect(conversation.live).toBeNull();
    expect(server.requests.filter((name) => name.endsWith('/stop'))).toEqual([]);
  });
});
