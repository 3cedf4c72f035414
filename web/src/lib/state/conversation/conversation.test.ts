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
    'GET /api/chats/1-1/messages': () => json({ messages: [], firstIndex: 0, total: 0 }),
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
let chats: ChatList;

async function made(): Promise<Conversation> {
  const catalog = new Catalog();
  await catalog.load();
  chats = new ChatList();
  await chats.refresh();
  return new Conversation({
    catalog,
    chats,
    preferences: new Preferences(),
    onCreated: () => undefined,
  });
}

async function opened(): Promise<Conversation> {
  const conversation = await made();
  await conversation.open('1-1');
  return conversation;
}

const running = (message: string, replaceFrom: number | null = null) =>
  json({
    state: 'running',
    turnId: 't',
    startedAt: '2026-03-01T08:00:00Z',
    message: asked(message),
    replaceFrom,
    lastEventId: 't-1',
    pendingApprovals: [],
  });

/** The run of the chat: its state as given, its events when they are asked for. */
function runs(state: () => Response): Promise<(response: Response) => void> {
  return new Promise((resolve) => {
    server.routes['GET /api/chats/1-1/run'] = (request) => {
      if (!request.headers.get('accept')?.includes('event-stream')) return state();
      return new Promise((answer) => resolve(answer));
    };
  });
}

const listed = (more: object) =>
  json({ chats: [{ id: '1-1', title: 'Named', personaId: 0, updatedAt: 'now', ...more }] });

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
    expect(conversation.turn.live).toBeNull();
    expect(conversation.draft.text).toBe('');
    expect(localStorage.getItem('daapu.pending.1-1')).toBeNull();
  });

  it('gives the words back when the server refuses', async () => {
    const conversation = await opened();
    server.routes['POST /api/chats/1-1/messages'] = () => json({ error: 'Busy.' }, 409);
    conversation.draft.set('hi');
    await conversation.sendDraft();
    expect(conversation.turn.sendError).toBe('Busy.');
    expect(conversation.draft.text).toBe('hi');
    expect(conversation.turn.live).toBeNull();
  });

  it('gives the words back when the turn fails, with what had arrived', async () => {
    const conversation = await opened();
    server.routes['POST /api/chats/1-1/messages'] = () =>
      events(text(1, 'part'), failed(2, 'Broken.'));
    conversation.draft.set('hi');
    await conversation.sendDraft();
    expect(conversation.turn.failure).toMatchObject({
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
    expect(conversation.turn.failure).toBeNull();
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
    expect(conversation.turn.failure).toBeNull();
    expect(conversation.draft.text).toBe('');
  });

  it('says so when the turn ended unstored while the connection was gone', async () => {
    const conversation = await opened();
    server.routes['POST /api/chats/1-1/messages'] = () => events(text(1, 'one'));
    server.routes['GET /api/chats/1-1/run'] = () => new Response(null, { status: 204 });
    conversation.draft.set('hi');
    await conversation.sendDraft();
    expect(conversation.turn.failure).not.toBeNull();
    expect(conversation.draft.text).toBe('hi');
  });

  it('joins a running turn when a chat is opened, with the message that it answers', async () => {
    const follow = runs(() => running('hi'));
    const conversation = await made();
    const opening = conversation.open('1-1');
    const answer = await follow;
    expect(conversation.turn.pending).toMatchObject({ text: 'hi', from: 0, elsewhere: true });
    server.history = [asked('hi'), said('hello')];
    answer(events(text(1, 'hello'), done(2)));
    await opening;
    expect(shown(conversation)).toEqual([['hello']]);
  });

  it('shows the answer that a turn from elsewhere replaces until it is there', async () => {
    server.history = [asked('a'), said('b'), asked('c'), said('d')];
    const follow = runs(() => running('changed', 2));
    const conversation = await made();
    const opening = conversation.open('1-1');
    const answer = await follow;
    expect(shown(conversation)).toEqual([['b']]);
    answer(events(failed(1, 'No.')));
    await opening;
    expect(shown(conversation)).toEqual([['b'], ['d']]);
  });

  it('leaves the composer alone when a message from elsewhere fails', async () => {
    const follow = runs(() => running('theirs'));
    const conversation = await made();
    const opening = conversation.open('1-1');
    (await follow)(events(failed(1, 'No.')));
    await opening;
    expect(conversation.turn.failure?.message).toBe('No.');
    expect(conversation.draft.text).toBe('');
  });

  it('gives the words back when a message of its own fails after a reload', async () => {
    localStorage.setItem(
      'daapu.pending.1-1',
      JSON.stringify({ text: 'mine', images: [], from: 0, replaces: false }),
    );
    const follow = runs(() => running('mine'));
    const conversation = await made();
    const opening = conversation.open('1-1');
    (await follow)(events(failed(1, 'No.')));
    await opening;
    expect(conversation.draft.text).toBe('mine');
  });

  it('shows what runs instead when the chat is busy with a message from elsewhere', async () => {
    const conversation = await opened();
    server.routes['GET /api/chats'] = () => listed({ live: true });
    server.routes['POST /api/chats/1-1/messages'] = () => json({ error: 'Busy.' }, 409);
    const follow = runs(() => running('theirs'));
    conversation.draft.set('mine');
    void conversation.sendDraft();
    await follow;
    expect(conversation.turn.pending?.text).toBe('theirs');
    expect(conversation.turn.sendError).toBe('Busy.');
    expect(conversation.draft.text).toBe('mine');
    conversation.close();
    chats.stopWatching();
  });

  it('catches up with what another browser stored, and asks nothing when nothing changed', async () => {
    const conversation = await opened();
    const before = server.requests.length;
    await conversation.catchUp();
    expect(server.requests.length).toBe(before);
    server.routes['GET /api/chats'] = () => listed({ updatedAt: 'later' });
    server.history = [asked('theirs'), said('yes')];
    await chats.refresh();
    await conversation.catchUp();
    expect(shown(conversation)).toEqual([['yes']]);
  });

  it('takes the words out of the composer again when a lost answer turns out to be there', async () => {
    vi.useFakeTimers();
    const conversation = await opened();
    server.routes['POST /api/chats/1-1/messages'] = () => events(text(1, 'one'));
    delete server.routes['GET /api/chats/1-1/run'];
    delete server.routes['GET /api/chats/1-1/chat'];
    conversation.draft.set('hi');
    const sending = conversation.sendDraft();
    await vi.runAllTimersAsync();
    await sending;
    vi.useRealTimers();
    expect(conversation.draft.text).toBe('hi');
    expect(conversation.turn.failure).not.toBeNull();
    expect(conversation.history.error).toBeNull();
    Object.assign(server.routes, new Server().routes);
    server.routes['GET /api/chats/1-1/chat'] = () => json([asked('hi'), said('one two')]);
    await conversation.catchUp();
    expect(shown(conversation)).toEqual([['one two']]);
    expect(conversation.draft.text).toBe('');
    expect(conversation.turn.failure).toBeNull();
  });

  it('says that a chat is gone', async () => {
    server.routes['GET /api/chats/1-1/messages'] = () => json({ error: 'no such chat' }, 404);
    const conversation = await opened();
    expect(conversation.history.error).toContain('does not exist any more');
  });

  it('keeps what is written while a new chat is being made', async () => {
    const conversation = await made();
    await conversation.open(null);
    let create: (response: Response) => void = () => undefined;
    server.routes['POST /api/chats'] = () => new Promise((resolve) => (create = resolve));
    server.routes['POST /api/chats/1-1/messages'] = () => events(done(1));
    conversation.draft.set('first');
    const sending = conversation.sendDraft();
    await vi.waitFor(() => expect(server.requests).toContain('POST /api/chats'));
    conversation.draft.set('and then');
    create(json({ id: '1-1' }, 201));
    await sending;
    expect(conversation.draft.text).toBe('and then');
    expect(localStorage.getItem('daapu.draft.new')).toBeNull();
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
    expect(conversation.turn.failure?.again).not.toBeNull();
  });

  it('lets go of the stream, not of the turn, when another chat is opened', async () => {
    const conversation = await opened();
    server.routes['POST /api/chats/1-1/messages'] = () => new Promise<Response>(() => undefined);
    conversation.draft.set('hi');
    void conversation.sendDraft();
    await vi.waitFor(() => expect(server.requests).toContain('POST /api/chats/1-1/messages'));
    await conversation.open(null);
    expect(conversation.turn.live).toBeNull();
    expect(server.requests.filter((name) => name.endsWith('/stop'))).toEqual([]);
  });
});
