import { fireEvent, render, screen } from '@testing-library/svelte';
import { createRawSnippet } from 'svelte';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import Dialog from './Dialog.svelte';

const children = createRawSnippet(() => ({ render: () => '<p>Within</p>' }));

describe('a dialog', () => {
  beforeEach(() => {
    // Modal dialogs are unknown to the test browser.
    HTMLDialogElement.prototype.showModal = function () {
      this.open = true;
    };
    HTMLDialogElement.prototype.close = () => undefined;
  });

  it('closes at a click beside it, not when a selection ends there', async () => {
    const onclose = vi.fn();
    render(Dialog, { title: 'Form', onclose, children });
    const dialog = screen.getByRole('dialog');
    await fireEvent.pointerDown(screen.getByText('Within'));
    await fireEvent.click(dialog);
    expect(onclose).not.toHaveBeenCalled();
    await fireEvent.pointerDown(dialog);
    await fireEvent.click(dialog);
    expect(onclose).toHaveBeenCalledOnce();
  });
});
