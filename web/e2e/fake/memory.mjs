// A small long-term memory for the development brain.

const entity = { id: 12, canonicalName: 'ada lovelace', category: 'person' };
const other = { id: 13, canonicalName: 'charles babbage', category: 'person' };
const relationship = { id: 3, srcId: 12, dstId: 13, verb: 'works_with', valid: true };
const note = {
  id: 7,
  entityId: 12,
  relationshipId: null,
  eventDate: '2026-08-30',
  note: 'Ada prefers tea in the afternoon and writes her notes by hand.',
  sources: 1,
  edited: false,
};
const bond = {
  id: 8,
  entityId: null,
  relationshipId: 3,
  eventDate: '2026-08-31',
  note: 'They discuss the engine every week.',
  sources: 0,
  edited: true,
};
const subject = { type: 'entity', id: 12, name: entity.canonicalName, category: 'person' };
let state;

/** Begin with the memory as it was. */
export function resetMemory() {
  state = {
    entities: new Map([
      [12, { ...entity }],
      [13, { ...other }],
    ]),
    attributes: { city: 'London', language: 'English' },
    relationship: { ...relationship },
    bonds: true,
  };
}

resetMemory();

const view = (id) => ({
  entity: state.entities.get(id),
  noteCount: 1,
  relationshipCount: 1,
  latestNote: { ...note, entityId: id },
  attributes: { ...state.attributes },
});
const bondView = () => ({
  relationship: state.relationship,
  srcName: entity.canonicalName,
  dstName: other.canonicalName,
  noteCount: 1,
  latestNote: bond,
});
const source = {
  chatId: null,
  chatTitle: 'Afternoon talk',
  messageIndex: null,
  messageCreatedAt: null,
  runId: 'r1',
  model: 'local/smol-demo',
  promptVersion: '1',
  excerpt: 'I always have tea at four, never coffee.',
  extractedAt: '2026-08-30T16:00:00Z',
};
const job = {
  id: 5,
  state: 'parked',
  chatId: null,
  chatTitle: 'A long chat',
  messages: 24,
  attempts: 5,
  lastError: 'The model gave no list.',
  nextAttemptAt: null,
  createdAt: '2026-08-30T16:00:00Z',
};

const answers = [
  [/^GET \/api\/eltm\/entities$/, () => [...state.entities.keys()].map(view)],
  [/^GET \/api\/eltm\/entities\/(\d+)$/, ([id]) => view(Number(id))],
  [
    /^PATCH \/api\/eltm\/entities\/(\d+)$/,
    ([id], body) => {
      const found = state.entities.get(Number(id));
      found.canonicalName = body.name ?? found.canonicalName;
      found.category = body.category ?? found.category;
      return view(Number(id));
    },
  ],
  [
    /^PUT \/api\/eltm\/entities\/(\d+)\/attributes\/(.+)$/,
    ([id, key], body) => {
      state.attributes[decodeURIComponent(key)] = body.value;
      return view(Number(id));
    },
  ],
  [
    /^DELETE \/api\/eltm\/entities\/(\d+)\/attributes\/(.+)$/,
    ([id, key]) => {
      const kept = Object.entries(state.attributes).filter(
        ([name]) => name !== decodeURIComponent(key),
      );
      state.attributes = Object.fromEntries(kept);
      return view(Number(id));
    },
  ],
  [
    /^POST \/api\/eltm\/entities\/(\d+)\/merge$/,
    ([id], body) => {
      state.entities.delete(body.loserId);
      return view(Number(id));
    },
  ],
  [
    /^PATCH \/api\/eltm\/relationships\/\d+$/,
    (_, body) => {
      state.relationship.valid = body.valid;
      return bondView();
    },
  ],
  [
    /^DELETE \/api\/eltm\/relationships\/\d+$/,
    () => {
      state.bonds = false;
      return undefined;
    },
  ],
  [
    /^POST \/api\/eltm\/relationships\/\d+\/restore$/,
    () => {
      state.bonds = true;
      return bondView();
    },
  ],
  [
    /^POST \/api\/eltm\/erase$/,
    (_, body) => {
      const chats = [{ id: '1-1', title: 'Afternoon talk' }];
      const some = { notes: 2, attributes: 1, relationships: 0, entities: 0, jobs: 0, sources: 3 };
      return { ...some, chats: body.dryRun || body.includeChats ? chats : [] };
    },
  ],
  [/^GET \/api\/eltm\/entities\/\d+\/notes$/, () => [note]],
  [/^GET \/api\/eltm\/entities\/\d+\/relationships$/, () => (state.bonds ? [bondView()] : [])],
  [/^GET \/api\/eltm\/relationships\/\d+\/notes$/, () => [bond]],
  [
    /^GET \/api\/eltm\/search$/,
    () => ({
      notes: [{ note, subject, score: 0.03, ranks: { semantic: 1, lexical: 4, name: null } }],
      entities: [...state.entities.values()].map((one) => ({
        entity: one,
        score: 0.03,
        ranks: {},
      })),
      degraded: null,
    }),
  ],
  [
    /^GET \/api\/eltm\/notes\/\d+$/,
    () => ({
      note,
      subject,
      sources: [source],
      history: [
        {
          at: '2026-08-30T16:00:00Z',
          by: 'writer',
          change: 'created',
          before: null,
          after: note.note,
        },
      ],
    }),
  ],
  [/^GET \/api\/eltm\/jobs$/, () => [job]],
  [
    /^GET \/api\/eltm\/replay$/,
    () => ({ state: 'idle', messagesTotal: 0, windowsCompacted: 0, jobsQueued: 0, error: null }),
  ],
  [/^PATCH \/api\/eltm\/notes\/\d+$/, () => ({ note, subject, sources: [], history: [] })],
];

export function answerMemory(method, url, body, reply) {
  for (const [pattern, answer] of answers) {
    const found = pattern.exec(`${method} ${url.pathname}`);
    if (!found) continue;
    const data = answer(found.slice(1), body);
    return data === undefined ? reply(204) : reply(200, data);
  }
  return method === 'GET' ? reply(404, { error: 'There is nothing with this id.' }) : reply(204);
}
