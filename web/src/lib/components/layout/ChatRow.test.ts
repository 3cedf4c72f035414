import { fireEvent, render, screen } from '@testing-library/svelte';
import { describe, expect, it, vi } from 'vitest';

import type { ChatInfo } from '../../api/types';
import ChatRow from './ChatRow.svelte';

const chat = { id: '1-1', title: 'Tides', pinned: false, live: false } as ChatInfo;

async function renaming() {
  const onrename = vi.fn();
  const nothing = () => undefined;
  const props = { chat, href: '#/', exportHref: '/', current: false, onrename };
  const rest = { onpin: nothing, ontitle: nothing, onarchive: nothing, ondelete: nothing };
  // Popovers are unknown to the test browser.
  HTMLElement.prototype.showPopover = nothing;
  render(ChatRow, { ...props, ...rest, onopen: nothing });
  await fireEvent.click(screen.getByRole('button', { name: /Actions for/ }));
  await fireEvent.click(screen.getByText('Rename'));
  return { onrename, field: screen.getByLabelText('Title') };
}

describe('renaming a chat', () => {
  it('waits for the end of a composition', async () => {
    const { onrename, field } = await renaming();
    await fireEvent.input(field, { target: { value: '潮汐' } });
    await fireEvent.keyDown(field, { key: 'Enter', isComposing: true });
    await fireEvent.keyDown(field, { key: 'Escape', isComposing: true });
    expect(onrename).not.toHaveBeenCalled();
    await fireEvent.keyDown(field, { key: 'Enter' });
    expect(onrename).toHaveBeenCalledWith('潮汐');
  });

  it('gives it up with Escape', async () => {
    const { onrename, field } = await renaming();
    await fireEvent.input(field, { target: { value: 'other' } });
    await fireEvent.keyDown(field, { key: 'Escape' });
    expect(onrename).not.toHaveBeenCalled();
    expect(screen.queryByLabelText('Title')).toBeNull();
  });
});
