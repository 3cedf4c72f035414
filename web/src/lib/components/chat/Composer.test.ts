import { fireEvent, render, screen } from '@testing-library/svelte';
import { createRawSnippet } from 'svelte';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { Draft } from '../../state/conversation/draft.svelte';
import Composer from './Composer.svelte';

const pickers = createRawSnippet(() => ({ render: () => '<span></span>' }));

function shown(overrides: Record<string, unknown> = {}) {
  const draft = new Draft();
  const onsend = vi.fn();
  const onstop = vi.fn();
  const props = {
    draft,
    running: false,
    stopping: false,
    vision: true,
    error: null,
    onsend,
    onstop,
    onpictures: async () => null,
    ondismiss: () => undefined,
    pickers,
  };
  render(Composer, { ...props, ...overrides });
  return { draft, onsend, onstop, field: screen.getByLabelText('Message') };
}

describe('the composer', () => {
  beforeEach(() => localStorage.clear());

  it('sends with Enter, not with Shift+Enter, not while composing, not when empty', async () => {
    const { field, onsend } = shown();
    await fireEvent.keyDown(field, { key: 'Enter' });
    expect(onsend).not.toHaveBeenCalled();
    await fireEvent.input(field, { target: { value: 'hello' } });
    await fireEvent.keyDown(field, { key: 'Enter', shiftKey: true });
    await fireEvent.keyDown(field, { key: 'Enter', isComposing: true });
    // Safari says it by the old code only.
    await fireEvent.keyDown(field, { key: 'Enter', keyCode: 229 });
    expect(onsend).not.toHaveBeenCalled();
    await fireEvent.keyDown(field, { key: 'Enter' });
    expect(onsend).toHaveBeenCalledOnce();
  });

  it('leaves Enter to new lines where the keyboard is on the screen', async () => {
    const { field, onsend } = shown();
    await fireEvent.input(field, { target: { value: 'hello' } });
    vi.stubGlobal('matchMedia', () => ({ matches: true }));
    const unhandled = await fireEvent.keyDown(field, { key: 'Enter' });
    expect(unhandled).toBe(true);
    expect(onsend).not.toHaveBeenCalled();
  });

  it('says what is wrong with a file that is no picture', async () => {
    const file = new File(['x'], 'notes.pdf', { type: 'application/pdf' });
    const { field } = shown({ onpictures: async () => 'Pictures can be PNG.' });
    await fireEvent.drop(field, { dataTransfer: { files: [file] } });
    expect((await screen.findByRole('alert')).textContent).toContain('Pictures can be PNG.');
  });

  it('pastes the text of what comes with a picture of itself', async () => {
    const onpictures = vi.fn(async () => null);
    const { field } = shown({ onpictures });
    const files = [new File(['x'], 'cells.png', { type: 'image/png' })];
    await fireEvent.paste(field, { clipboardData: { files, types: ['text/plain', 'Files'] } });
    expect(onpictures).not.toHaveBeenCalled();
    await fireEvent.paste(field, { clipboardData: { files, types: ['Files'] } });
    expect(onpictures).toHaveBeenCalledWith(files);
  });

  it('keeps the draft of each chat', async () => {
    const { draft, field } = shown();
    await fireEvent.input(field, { target: { value: 'for later' } });
    draft.open('other');
    expect(draft.text).toBe('');
    draft.open(null);
    expect(draft.text).toBe('for later');
  });

  it('offers to stop while an answer runs', async () => {
    const { onstop } = shown({ running: true });
    await fireEvent.click(screen.getByRole('button', { name: 'Stop' }));
    expect(onstop).toHaveBeenCalledWith(true);
    expect(screen.queryByRole('button', { name: 'Send' })).toBeNull();
  });

  it('shows the server’s refusal', () => {
    shown({ error: 'This chat is busy.' });
    expect(screen.getByRole('alert').textContent).toContain('This chat is busy.');
  });
});
