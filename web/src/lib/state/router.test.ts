import { describe, expect, it } from 'vitest';

import { hrefOf, parse } from './router.svelte';

describe('addresses', () => {
  it.each([
    ['', { page: 'chat', id: null, message: null }],
    ['#/', { page: 'chat', id: null, message: null }],
    ['#/chat/1755500000000-42?m=7', { page: 'chat', id: '1755500000000-42', message: 7 }],
    ['#/memory/12', { page: 'memory', id: '12', message: null }],
    ['#/nonsense', { page: 'chat', id: null, message: null }],
    ['#/chat/%E0%A4%A', { page: 'chat', id: '%E0%A4%A', message: null }],
  ])('reads %s', (hash, route) => {
    expect(parse(hash)).toEqual(route);
  });

  it('reads what it wrote', () => {
    expect(parse(hrefOf('chat', 'a/b c')).id).toBe('a/b c');
  });
});
