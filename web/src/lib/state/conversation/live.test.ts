import { describe, expect, it } from 'vitest';

import type { TurnEvent } from '../../api/wire';
import { LiveTurn } from './live.svelte';

const text = (delta: string): TurnEvent => ({ name: 'text', data: { delta } });
const call = (id: string): TurnEvent => ({
  name: 'tool_call',
  data: { id, name: 'a__b', args: {} },
});
const result = (id: string): TurnEvent => ({
  name: 'tool_result',
  data: { id, name: 'a__b', content: 'ok', isError: false },
});
const retry: TurnEvent = { name: 'retry', data: { message: 'again' } };

function after(...events: TurnEvent[]): LiveTurn {
  const live = new LiveTurn();
  for (const event of events) live.apply(event);
  live.flush();
  return live;
}

const shown = (live: LiveTurn) =>
  live.segments.map((segment) =>
    segment.kind === 'tool' ? `${segment.id}:${segment.result?.content ?? '…'}` : segment.text,
  );

describe('a live turn', () => {
  it('joins deltas of a kind', () => {
    expect(
      shown(after(text('a'), text('b'), { name: 'reasoning', data: { delta: 'r' } }, text('c'))),
    ).toEqual(['ab', 'r', 'c']);
  });

  it('takes back the current round at a retry', () => {
    expect(shown(after(text('bad'), retry, text('good')))).toEqual(['good']);
  });

  it('keeps completed tool rounds at a retry', () => {
    expect(
      shown(after(text('one'), call('c1'), result('c1'), text('bad'), retry, text('good'))),
    ).toEqual(['one', 'c1:ok', 'good']);
  });

  it('keeps results when the retry comes before the next round said anything', () => {
    expect(shown(after(call('c1'), result('c1'), retry, text('x')))).toEqual(['c1:ok', 'x']);
  });

  it('treats parallel calls as one round', () => {
    expect(
      shown(
        after(
          call('c1'),
          call('c2'),
          result('c2'),
          call('c3'),
          result('c1'),
          result('c3'),
          text('t'),
          retry,
        ),
      ),
    ).toEqual(['c1:ok', 'c2:ok', 'c3:ok']);
  });

  it('starts a new text after a tool round', () => {
    expect(shown(after(text('a'), call('c1'), result('c1'), text('b')))).toEqual([
      'a',
      'c1:ok',
      'b',
    ]);
  });

  it('matches results to calls that have no id', () => {
    const anonymous: TurnEvent = { name: 'tool_call', data: { name: 'a__b', args: {} } };
    expect(after(anonymous, result('server-id')).segments[0]).toMatchObject({
      result: { content: 'ok' },
    });
  });

  it('asks for an approval and shows the decision', () => {
    const ask: TurnEvent = {
      name: 'tool_approval',
      data: { id: 'c1', name: 'a__b', args: { x: 1 }, timeoutSeconds: 30 },
    };
    const live = after(call('c1'), ask);
    expect(live.segments).toHaveLength(1);
    expect(live.segments[0]).toMatchObject({ approval: { state: 'pending' } });
    live.apply({ name: 'tool_approval_result', data: { id: 'c1', decision: 'deny' } });
    expect(live.segments[0]).toMatchObject({ approval: { state: 'deny' } });
  });

  it('forgets all when the turn is told from its start', () => {
    const live = after(text('a'), retry);
    live.reset();
    expect(live.segments).toEqual([]);
    expect(live.facts.retries).toEqual([]);
  });
});
