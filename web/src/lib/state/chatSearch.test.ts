import { describe, expect, it } from 'vitest';

import { pieces } from './chatSearch.svelte';

describe('snippets', () => {
  it('tells hits apart', () => {
    expect(pieces('a \uE000hit\uE001 b')).toEqual([
      { text: 'a ', hit: false },
      { text: 'hit', hit: true },
      { text: ' b', hit: false },
    ]);
  });
});
