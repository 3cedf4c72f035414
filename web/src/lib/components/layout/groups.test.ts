import { describe, expect, it } from 'vitest';

import { groupsOf } from './groups';

const now = new Date(2026, 5, 15, 12);
const chat = (daysAgo: number, pinned = false) => {
  const made = now.getTime() - daysAgo * 86_400_000;
  const createdAt = new Date(made).toISOString();
  const state = { pinned, archived: false, temporary: false, remember: true };
  return { id: `${made}-1`, title: 'x', personaId: 0, createdAt, updatedAt: createdAt, ...state };
};

describe('the chat list', () => {
  it('groups by age, pinned ones first', () => {
    const groups = groupsOf([chat(0), chat(1), chat(5), chat(20), chat(300), chat(400, true)], now);
    expect(groups.map((group) => group.label)).toEqual([
      'Pinned',
      'Today',
      'Yesterday',
      'Last 7 days',
      'Last 30 days',
      'Older',
    ]);
  });

  it('shows no empty group', () => {
    expect(groupsOf([chat(0)], now)).toHaveLength(1);
  });
});
