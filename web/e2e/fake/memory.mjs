// A small long-term memory for the development brain.

const entity = { id: 12, canonicalName: 'ada lovelace', category: 'person' };
const other = { id: 13, canonicalName: 'charles babbage', category: 'person' };
const relationship = { id: 3, srcId: 12, dstId: 13, verb: 'works with', valid: true };
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
const view = (of) => ({
  entity: of,
  noteCount: 1,
  relationshipCount: 1,
  latestNote: { ...note, entityId: of.id },
  attributes: { city: 'London', language: 'English' },
});
const bondView = {
  relationship,
  srcName: entity.canonicalName,
  dstName: other.canonicalName,
  noteCount: 1,
  latestNote: bond,
};
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
  [/^GET \/api\/eltm\/entities$/, () => [view(entity), view(other)]],
  [/^GET \/api\/eltm\/entities\/12$/, () => view(entity)],
  [/^GET \/api\/eltm\/entities\/13$/, () => view(other)],
  [/^GET \/api\/eltm\/entities\/\d+\/notes$/, () => [note]],
  [/^GET \/api\/eltm\/entities\/\d+\/relationships$/, () => [bondView]],
  [/^GET \/api\/eltm\/relationships\/\d+\/notes$/, () => [bond]],
  [
    /^GET \/api\/eltm\/search$/,
    () => ({
      notes: [{ note, subject, score: 0.03, ranks: { semantic: 1, lexical: 4, name: null } }],
      entities: [{ entity, score: 0.03, ranks: {} }],
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

export function answerMemory(method, url, reply) {
  const found = answers.find(([pattern]) => pattern.test(`${method} ${url.pathname}`));
  if (found) return reply(200, found[1]());
  return method === 'GET' ? reply(404, { error: 'There is nothing with this id.' }) : reply(204);
}
