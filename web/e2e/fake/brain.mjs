// A brain for developing and testing the page alone: the real wire, with scripted answers and everything in memory.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

import { answerMemory, resetMemory } from './memory.mjs';
import { Turn, run, storedMessages } from './turns.mjs';

const dist = fileURLToPath(new URL('../../dist/', import.meta.url));
const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
};

class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function freshState() {
  return {
    chats: new Map(),
    turns: new Map(),
    personas: [
      {
        id: 0,
        name: 'Default (GSG)',
        systemPrompt: 'You are a helpful assistant.',
        allowedNamespaces: [],
        staleNamespaces: [],
        remember: true,
      },
    ],
    nextPersona: 1,
    maintenance: false,
    token: null,
    clock: Date.now(),
  };
}

let state = freshState();

const info = (chat) => ({
  id: chat.id,
  title: chat.title,
  personaId: chat.personaId,
  createdAt: chat.createdAt,
  updatedAt: `${chat.createdAt}/${chat.messages.length}`,
  pinned: chat.pinned ?? false,
  archived: chat.archived ?? false,
  temporary: false,
  remember: true,
  live: state.turns.has(chat.id),
});

function addChat(title, messages = []) {
  const id = `${++state.clock}-${state.chats.size + 1}`;
  const chat = {
    id,
    title,
    messages,
    personaId: 0,
    createdAt: new Date(state.clock).toISOString(),
  };
  state.chats.set(id, chat);
  return chat;
}

function chatOf(id) {
  const chat = state.chats.get(id);
  if (!chat) throw new Refusal(404, `There is no chat ${id}.`);
  return chat;
}

function listChats(url) {
  const cursor = url.searchParams.get('cursor');
  const all = [...state.chats.values()]
    .sort((a, b) => (a.id < b.id ? 1 : -1))
    .filter((chat) => !cursor || chat.id < cursor)
    .filter((chat) => !chat.archived || url.searchParams.get('include') === 'archived');
  const page = all.slice(0, 200);
  return { chats: page.map(info), ...(all.length > 200 && { nextCursor: page.at(-1).id }) };
}

function truncate(chat, index) {
  const message = chat.messages[index];
  if (message?.role !== 'user') throw new Refusal(400, 'Only a user message can be cut at.');
  chat.messages = chat.messages.slice(0, index);
}

function send(chat, body, response) {
  if (state.maintenance) throw new Refusal(503, 'Maintenance mode is on.');
  if (!body.text && !body.images?.length)
    throw new Refusal(400, 'A message needs text or a picture.');
  if (state.turns.has(chat.id)) throw new Refusal(409, 'This chat is being answered already.');
  const parts = body.text ? [{ type: 'text', text: body.text.trim() }] : [];
  for (const { dataUrl } of body.images ?? []) {
    const [, mimeType, base64] = /^data:([^;]+);base64,(.*)$/s.exec(dataUrl);
    parts.push({
      type: 'attachment',
      kind: 'image',
      content: { type: 'base64', base64 },
      mimeType,
    });
  }
  const message = { role: 'user', parts, createdAt: new Date().toISOString() };
  const turn = new Turn(chat, message, body.replaceFrom ?? chat.messages.length);
  turn.replaceFrom = body.replaceFrom ?? null;
  turn.rawModel = body.model.slice(body.model.indexOf('/') + 1);
  state.turns.set(chat.id, turn);
  void run(turn, () => {
    chat.messages = [...chat.messages.slice(0, turn.from), ...storedMessages(turn)];
    chat.personaId = body.personaId;
  }).finally(() => state.turns.delete(chat.id));
  return turn.serve(response);
}

function search(url) {
  const q = url.searchParams.get('q') ?? '';
  const hits = [...state.chats.values()].flatMap((chat) =>
    chat.messages.flatMap((message, messageIndex) => {
      const text = message.parts.find((part) => part.type === 'text')?.text ?? '';
      const at = text.toLowerCase().indexOf(q.toLowerCase());
      if (at < 0) return [];
      const snippet = `${text.slice(Math.max(0, at - 30), at)}\uE000${text.slice(at, at + q.length)}\uE001${text.slice(at + q.length, at + 80)}`;
      return [
        {
          chatId: chat.id,
          title: chat.title,
          messageIndex,
          role: message.role,
          createdAt: chat.createdAt,
          snippet,
        },
      ];
    }),
  );
  return { hits: hits.slice(0, 20) };
}

const models = [
  {
    id: 'local/smol-demo',
    vision: false,
    contextLength: 8192,
    maxOutputTokens: 1024,
    capabilities: [],
    embedding: false,
    demo: true,
    measured: null,
  },
  {
    id: 'gw/acme/large-1',
    vision: true,
    contextLength: 131072,
    maxOutputTokens: 8192,
    capabilities: ['image', 'tool_calls'],
    embedding: false,
    demo: false,
    measured: null,
  },
];

const tools = [
  {
    namespace: 'exa',
    kind: 'mcp',
    state: 'ready',
    lastError: null,
    budgetSeconds: 60,
    approval: 'never',
    tools: [{ name: 'exa__web_search_exa', description: 'Searches the web.', schema: {} }],
  },
  {
    namespace: 'bash',
    kind: 'bash',
    state: 'ready',
    lastError: null,
    budgetSeconds: 120,
    approval: 'ask',
    tools: [{ name: 'bash__run', description: 'Runs a shell command.', schema: {} }],
  },
  {
    namespace: 'notes',
    kind: 'mcp',
    state: 'down',
    lastError: 'connection refused',
    budgetSeconds: 30,
    approval: 'never',
    tools: [],
  },
];

const routes = [
  ['GET', '/api/models', () => models],
  ['GET', '/api/tools', () => tools],
  ['GET', '/api/chats', ({ url }) => listChats(url)],
  ['POST', '/api/chats', () => [201, { id: addChat('New chat').id }]],
  ['POST', '/api/chats/import', ({ body }) => [201, info(addChat(body.title, body.messages))]],
  ['PUT', '/api/chats/:id', ({ id, body }) => info(Object.assign(chatOf(id), body))],
  [
    'POST',
    '/api/chats/:id/title',
    ({ id }) => info(Object.assign(chatOf(id), { title: 'A generated title' })),
  ],
  ['DELETE', '/api/chats/:id', ({ id }) => (chatOf(id), state.chats.delete(id), [204])],
  ['GET', '/api/chats/:id/chat', ({ id }) => state.chats.get(id)?.messages ?? []],
  [
    'GET',
    '/api/chats/:id/messages',
    ({ id }) => ({ messages: [], firstIndex: 0, total: chatOf(id).messages.length }),
  ],
  [
    'GET',
    '/api/chats/:id/export',
    ({ id }) => ({ title: chatOf(id).title, messages: chatOf(id).messages }),
  ],
  [
    'DELETE',
    '/api/chats/:id/messages/:index',
    ({ id, index }) => (truncate(chatOf(id), Number(index)), [204]),
  ],
  [
    'POST',
    '/api/chats/:id/fork/:index',
    ({ id, index }) => {
      const chat = chatOf(id);
      return [201, info(addChat(`${chat.title} (2)`, chat.messages.slice(0, Number(index) + 1)))];
    },
  ],
  ['POST', '/api/chats/:id/messages', ({ id, body, response }) => send(chatOf(id), body, response)],
  [
    'GET',
    '/api/chats/:id/run',
    ({ id, request, response }) => {
      const turn = state.turns.get(id);
      const stream = request.headers.accept?.includes('text/event-stream');
      if (!turn) return stream ? [204] : { state: 'idle' };
      if (stream) return turn.serve(response, request.headers['last-event-id']);
      const pendingApprovals = [...turn.approvals.values()].map(({ id: call, name, args }) => ({
        id: call,
        name,
        args,
        timeoutSeconds: 300,
      }));
      return {
        state: 'running',
        turnId: turn.id,
        startedAt: turn.startedAt,
        message: turn.message,
        replaceFrom: turn.replaceFrom,
        lastEventId: turn.events.at(-1)?.id ?? null,
        pendingApprovals,
      };
    },
  ],
  [
    'POST',
    '/api/chats/:id/stop',
    ({ id, body }) => {
      const turn = state.turns.get(id);
      if (!turn) throw new Refusal(409, 'Nothing runs.');
      turn.stopRequest = body;
      turn.onstop();
      return [202, { state: 'stopping' }];
    },
  ],
  [
    'POST',
    '/api/chats/:id/approvals/:call',
    ({ id, call, body }) => {
      if (!state.turns.get(id)?.decide(call, body.decision))
        throw new Refusal(404, 'No such approval.');
      return [204];
    },
  ],
  ['GET', '/api/search', ({ url }) => search(url)],
  ['GET', '/api/personas', () => state.personas],
  [
    'POST',
    '/api/personas',
    ({ body }) => {
      const persona = { staleNamespaces: [], ...body, id: state.nextPersona++ };
      state.personas.push(persona);
      return [201, persona];
    },
  ],
  ['GET', '/api/personas/export', () => state.personas.slice(1)],
  [
    'PUT',
    '/api/personas/:id',
    ({ id, body }) =>
      Object.assign(
        state.personas.find((one) => one.id === Number(id)),
        body,
      ),
  ],
  [
    'DELETE',
    '/api/personas/:id',
    ({ id }) => {
      state.personas = state.personas.filter((one) => one.id !== Number(id));
      return [204];
    },
  ],
  ['GET', '/api/maintenance', () => ({ enabled: state.maintenance })],
  ['PUT', '/api/maintenance', ({ body }) => ({ enabled: (state.maintenance = body.enabled) })],
  [
    'GET',
    '/api/maintenance/reembed',
    () => ({ state: 'idle', entities: 0, notes: 0, error: null }),
  ],
  [
    'POST',
    '/api/maintenance/reembed',
    () => [202, { state: 'running', entities: 0, notes: 0, error: null }],
  ],
  // Only of this server: set the stage for a test.
  [
    'POST',
    '/test/reset',
    ({ body }) => {
      state = freshState();
      resetMemory();
      state.token = body.token ?? null;
      for (let n = 0; n < (body.chats ?? 0); n++) addChat(`Chat ${n + 1}`);
      return [204];
    },
  ],
];

function match(method, path) {
  const parts = path.split('/');
  for (const [verb, pattern, handler] of routes) {
    const wanted = pattern.split('/');
    if (verb !== method || wanted.length !== parts.length) continue;
    if (!wanted.every((part, n) => part.startsWith(':') || part === parts[n])) continue;
    const params = Object.fromEntries(
      wanted.flatMap((part, n) =>
        part.startsWith(':') ? [[part.slice(1), decodeURIComponent(parts[n])]] : [],
      ),
    );
    return { handler, params };
  }
  return null;
}

function authorised(request, path) {
  return (
    !state.token ||
    !path.startsWith('/api/') ||
    request.headers.cookie?.includes(`daapu=${state.token}`)
  );
}

async function bodyOf(request) {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const text = Buffer.concat(pieces).toString();
  return text ? JSON.parse(text) : {};
}

function reply(response, status, body) {
  if (body === undefined) return response.writeHead(status).end();
  return response
    .writeHead(status, { 'content-type': 'application/json' })
    .end(JSON.stringify(body));
}

async function serveFile(response, path) {
  const file = normalize(join(dist, path === '/' ? 'index.html' : path));
  if (!file.startsWith(dist)) return reply(response, 404, { error: 'Not found' });
  const content = await readFile(file).catch(() => null);
  if (!content) return reply(response, 404, { error: 'Not found' });
  return response
    .writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' })
    .end(content);
}

async function handle(request, response) {
  const url = new URL(request.url, 'http://localhost');
  const path = url.pathname;
  if (path === '/api/login') {
    const { token } = await bodyOf(request);
    if (token !== state.token) return reply(response, 401, { error: 'This is not the token.' });
    return response
      .writeHead(204, { 'set-cookie': `daapu=${token}; HttpOnly; SameSite=Strict; Path=/` })
      .end();
  }
  if (!authorised(request, path)) return reply(response, 401, { error: 'The token is missing.' });
  const found = match(request.method, path);
  const body = request.method === 'GET' ? {} : await bodyOf(request);
  if (!found && path.startsWith('/api/eltm'))
    return answerMemory(request.method, url, body, (status, data) => reply(response, status, data));
  if (!found) return serveFile(response, path);
  const result = await found.handler({ ...found.params, url, body, request, response });
  if (response.headersSent || result === undefined) return undefined;
  return Array.isArray(result) && typeof result[0] === 'number'
    ? reply(response, ...result)
    : reply(response, 200, result);
}

export function startFakeBrain(port = 0) {
  const server = createServer((request, response) => {
    handle(request, response).catch((error) =>
      reply(response, error.status ?? 500, { error: error.message }),
    );
  });
  return new Promise((resolve) =>
    server.listen(port, '127.0.0.1', () =>
      resolve({ server, url: `http://127.0.0.1:${server.address().port}` }),
    ),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await startFakeBrain(Number(process.env['PORT'] ?? 8080));
  process.stdout.write(`${url}\n`);
}
