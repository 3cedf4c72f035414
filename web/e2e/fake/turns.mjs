// Turns of the development brain: numbered events, subscribers that come and go, scripts chosen by a word of the message.
import { setTimeout as pause } from 'node:timers/promises';

export class Turn {
  constructor(chat, message, from) {
    this.chat = chat;
    this.message = message;
    this.from = from;
    this.id = `t${Date.now()}`;
    this.startedAt = new Date().toISOString();
    this.events = [];
    this.subscribers = new Set();
    this.approvals = new Map();
    this.finished = false;
    this.stopRequest = null;
    this.text = '';
  }

  emit(name, data) {
    this.events.push({ id: `${this.id}-${this.events.length + 1}`, name, data });
    if (name === 'text') this.text += data.delta;
    if (name === 'retry') this.text = '';
    if (name === 'done' || name === 'error') this.finished = true;
    for (const notify of this.subscribers) notify();
  }

  /** Write events after `lastId` to a response until the turn ends or the client goes. */
  async serve(response, lastId) {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    response.write('event: comment\ndata: connected\n\n');
    let next = lastId ? this.events.findIndex((event) => event.id === lastId) + 1 : 0;
    const flush = () => {
      for (; next < this.events.length; next++) {
        const { id, name, data } = this.events[next];
        response.write(`id: ${id}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
        if (this.cutAfter !== undefined && next >= this.cutAfter) {
          this.cutAfter = undefined;
          response.destroy();
        }
      }
      if (this.finished) response.end();
    };
    this.subscribers.add(flush);
    response.on('close', () => this.subscribers.delete(flush));
    flush();
  }

  ask(id, name, args) {
    this.emit('tool_call', { id, name, args });
    this.emit('tool_approval', { id, name, args, timeoutSeconds: 300 });
    return new Promise((resolve) => this.approvals.set(id, { id, name, args, resolve }));
  }

  decide(id, decision) {
    const approval = this.approvals.get(id);
    if (!approval) return false;
    this.approvals.delete(id);
    this.emit('tool_approval_result', { id, decision });
    approval.resolve(decision);
    return true;
  }

  async say(text, delay) {
    for (const piece of text.match(/\s*\S+/g) ?? []) {
      if (this.stopRequest) return;
      this.emit('text', { delta: piece });
      await pause(delay);
    }
  }
}

const PROSE = `The tide comes **twice** a day. Here is how one might write it down:

\`\`\`python
def tide(hour: int) -> float:
    """Height of the water in metres."""
    return 2.5 + 1.8 * math.sin(hour / 12.42 * 2 * math.pi)
\`\`\`

| Place | High water | Range |
|---|---|---|
| Lisbon | 04:12 | 2.9 m |
| Porto | 04:31 | 3.0 m |

1. The moon pulls at the water.
2. The earth turns below it.
   - so most coasts see two high waters
   - some see only one

> Time and tide wait for no one.

See https://example.org/tides for more, and $h = \\frac{1}{2} g t^2$ for nothing at all.
`;

const scripts = {
  async slow(turn) {
    turn.emit('reasoning', { delta: 'Counting slowly.' });
    const words = Array.from({ length: 60 }, (_, n) => `word${n + 1}`).join(' ');
    await turn.say(words, 80);
  },
  async tool(turn) {
    turn.emit('reasoning', { delta: 'The weather is not something I know. ' });
    turn.emit('reasoning', { delta: 'There is a tool for it.' });
    turn.emit('tool_call', {
      id: 'c1',
      name: 'exa__web_search_exa',
      args: { query: 'Lisbon weather' },
    });
    await pause(120);
    turn.emit('tool_result', {
      id: 'c1',
      name: 'exa__web_search_exa',
      content: 'Sunny, 24 C',
      isError: false,
    });
    await turn.say('Sunny and 24 degrees.', 10);
  },
  async approve(turn) {
    const decision = await turn.ask('c1', 'bash__run', { command: 'ls -la ~/notes' });
    const denied = decision === 'deny';
    const content = denied ? 'The user refused this call.' : 'tides.md';
    turn.emit('tool_result', { id: 'c1', name: 'bash__run', content, isError: denied });
    await turn.say(denied ? 'Then I will not look.' : 'There is one file, tides.md.', 10);
  },
  async retry(turn) {
    await turn.say('This will be taken back.', 10);
    turn.emit('retry', { message: '429 from the gateway, waiting 1 s' });
    await turn.say('This stays.', 10);
  },
  async cut(turn) {
    turn.cutAfter = 6;
    await turn.say('One two three four five six seven eight nine ten.', 60);
  },
  async compact(turn) {
    turn.emit('compaction', {
      droppedMessages: 12,
      rounds: 4,
      summaryChars: 900,
      reason: 'proactive',
    });
    turn.emit('memory', { notes: [1, 2, 3], entities: [1], degraded: null });
    turn.emit('context', {
      contextLength: 8192,
      persona: 200,
      tools: 300,
      memory: 150,
      history: 900,
      answer: 1024,
      free: 5618,
      estimated: true,
    });
    await turn.say('Remembered.', 10);
  },
  async fail(turn) {
    await turn.say('I was about to', 10);
    throw new Error('The gateway answered 500.\nCaused by: out of memory');
  },
  async plain(turn) {
    turn.emit('memory', { notes: [7], entities: [], degraded: null });
    await turn.say(PROSE.replace(/\n/g, '\n'), 4);
  },
};

/** Run the script that the message names, then store or fail as the real brain does. */
export async function run(turn, store) {
  const text = turn.message.parts.find((part) => part.type === 'text')?.text ?? '';
  const name = Object.keys(scripts).find((word) => text.startsWith(word)) ?? 'plain';
  const stopped = new Promise((resolve) => (turn.onstop = resolve));
  try {
    await Promise.race([scripts[name](turn), stopped]);
  } catch (error) {
    turn.emit('error', { message: error.message, type: 'HandRunException' });
    return;
  }
  if (turn.stopRequest) {
    turn.emit('stopped', { by: 'user' });
    if (!turn.stopRequest.keepPartial) {
      turn.emit('error', { message: 'The run was stopped.', type: 'Stopped' });
      return;
    }
  }
  store(turn);
  turn.emit('done', {});
}

export function storedMessages(turn) {
  const messages = [turn.message];
  const meta = { inputTokens: 320, outputTokens: 48, totalTokens: 368, modelId: turn.rawModel };
  const calls = turn.events.filter((event) => event.name === 'tool_call');
  const reasoning = turn.events
    .filter((event) => event.name === 'reasoning')
    .map((event) => event.data.delta)
    .join('');
  const first = reasoning ? [{ type: 'reasoning', content: reasoning }] : [];
  if (calls.length > 0) {
    const parts = calls.map(({ data }) => ({
      type: 'tool_call',
      id: data.id,
      tool: data.name,
      args: data.args,
    }));
    messages.push({
      role: 'assistant',
      parts: [...first.splice(0), ...parts],
      meta,
      finishReason: 'tool_calls',
    });
    for (const { data } of turn.events.filter((event) => event.name === 'tool_result')) {
      const parts = [{ type: 'text', text: data.content }];
      messages.push({
        role: 'tool_result',
        parts: [
          { type: 'tool_result', id: data.id, tool: data.name, parts, isError: data.isError },
        ],
      });
    }
  }
  messages.push({
    role: 'assistant',
    parts: [...first, { type: 'text', text: turn.text }],
    meta,
    finishReason: 'stop',
    ...(turn.stopRequest && { interrupted: true }),
  });
  return messages;
}
