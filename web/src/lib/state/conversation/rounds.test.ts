import { describe, expect, it } from 'vitest';

import type { Message } from '../../api/types';
import { answerText, roundsOf } from './rounds';

const meta = { inputTokens: 10, outputTokens: 2, totalTokens: 12, modelId: 'large' };
const user = (text: string): Message => ({
  role: 'user',
  parts: [{ type: 'text', text }],
  createdAt: '2026-03-01T08:00:00Z',
});
const answer = (text: string): Message => ({
  role: 'assistant',
  parts: [{ type: 'text', text }],
  meta,
  finishReason: 'stop',
});

describe('rounds of stored messages', () => {
  it('joins calls with their results in one round', () => {
    const [round, ...others] = roundsOf([
      user('Roll'),
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', content: 'tool' },
          { type: 'tool_call', id: 'c1', tool: 'dice__roll', args: { sides: 6 } },
        ],
        meta,
        finishReason: 'tool_calls',
      },
      {
        role: 'tool_result',
        parts: [
          {
            type: 'tool_result',
            id: 'c1',
            tool: 'dice__roll',
            parts: [{ type: 'text', text: '4' }],
            isError: false,
          },
        ],
      },
      answer('A 4.'),
    ]);
    expect(others).toEqual([]);
    expect(round?.segments.map((segment) => segment.kind)).toEqual(['reasoning', 'tool', 'text']);
    expect(round?.segments[1]).toMatchObject({ result: { content: '4', isError: false } });
    expect(round).toMatchObject({
      answerIndex: 3,
      finishReason: 'stop',
      tokens: { input: 10, output: 4 },
    });
    expect(answerText(round?.segments ?? [])).toBe('A 4.');
  });

  it('tells a compaction summary apart and forbids cutting at it and right after it', () => {
    const rounds = roundsOf([
      user('CONTEXT COMPACTION: Long ago.'),
      user('Next'),
      answer('Yes'),
      user('More'),
      answer('Ok'),
    ]);
    expect(rounds.map((round) => round.user?.summary)).toEqual([true, false, false]);
    expect(rounds[0]?.user?.text).toBe('Long ago.');
    expect(rounds.map((round) => round.user?.editable)).toEqual([false, false, true]);
  });

  it('keeps the prologue in a round without a user', () => {
    expect(roundsOf([answer('Hello')])[0]?.user).toBeNull();
  });
});
