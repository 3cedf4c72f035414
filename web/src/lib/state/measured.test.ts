import { describe, expect, it } from 'vitest';

import type { Model } from '../api/types';
import { disagreementsOf } from './measured';

const model = (measured: Model['measured'], capabilities: string[] = []): Model => ({
  id: 'gw/m',
  vision: false,
  contextLength: 32768,
  maxOutputTokens: 1024,
  capabilities,
  embedding: false,
  demo: false,
  measured,
});

describe('a measured model', () => {
  it('is told apart from one that was never measured', () => {
    expect(disagreementsOf(model(null))).toBeNull();
    expect(disagreementsOf(model({ reachable: true }))).toEqual([]);
  });

  it('is warned about when it does not answer, whatever else was measured', () => {
    const found = disagreementsOf(model({ reachable: false, error: 'refused', toolCalls: true }));
    expect(found).toHaveLength(1);
    expect(found?.[0]).toContain('refused');
  });

  it('is warned about when its window is smaller than configured, not when it is larger', () => {
    expect(disagreementsOf(model({ reachable: true, contextLength: 16384 }))?.[0]).toContain(
      '16,384',
    );
    expect(disagreementsOf(model({ reachable: true, contextLength: 65536 }))).toEqual([]);
  });

  it('is warned about where promises and abilities differ', () => {
    const measured = { reachable: true, toolCalls: false, image: true };
    const found = disagreementsOf(model(measured, ['tool_calls', 'structured_output']));
    expect(found).toHaveLength(2);
    expect(found?.[0]).toContain('tool_calls');
    expect(found?.[1]).toContain('image');
  });
});
