import { describe, expect, it } from 'vitest';

import { keysOf, type Shortcuts } from './keys';

function pressed(init: KeyboardEventInit, field?: { tag: string; id?: string }) {
  const names = ['newChat', 'search', 'sidebar', 'help', 'compose', 'stop'] as const;
  const called: string[] = [];
  const shortcuts = Object.fromEntries(names.map((name) => [name, () => called.push(name)]));
  const event = new KeyboardEvent('keydown', { cancelable: true, ...init });
  const target = document.createElement(field?.tag ?? 'div');
  target.id = field?.id ?? '';
  target.addEventListener('keydown', keysOf(shortcuts as unknown as Shortcuts));
  target.dispatchEvent(event);
  return called;
}

describe('keyboard shortcuts', () => {
  it('stops an answer with Escape, from the composer too, but not from another field', () => {
    expect(pressed({ key: 'Escape' })).toEqual(['stop']);
    expect(pressed({ key: 'Escape' }, { tag: 'textarea', id: 'composer' })).toEqual(['stop']);
    expect(pressed({ key: 'Escape' }, { tag: 'input', id: 'chat-search' })).toEqual([]);
  });

  it('leaves Escape to an input method', () => {
    const composing = { key: 'Escape', isComposing: true };
    expect(pressed(composing, { tag: 'textarea', id: 'composer' })).toEqual([]);
  });

  it('takes plain keys outside of fields only', () => {
    expect(pressed({ key: '/' })).toEqual(['compose']);
    expect(pressed({ key: '/' }, { tag: 'input' })).toEqual([]);
  });

  it('goes by the place of a key when Alt writes another character', () => {
    expect(pressed({ key: '˜', code: 'KeyN', altKey: true })).toEqual(['newChat']);
  });
});
