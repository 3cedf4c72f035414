// Against any running daapu, with whatever model it has.
import { expect, it } from 'vitest';

import {
  answered,
  browserTests,
  composer,
  cutShort,
  liveText,
  open,
  PATIENCE,
  send,
  stop,
} from '../browser';

const LONG = 'slow: Tell a story about a river in about eighty words.';

browserTests('a conversation', () => {
  it('shows the answer growing, survives a reload in the middle, and stores it', async () => {
    const page = await open();
    await send(page, LONG);
    await expect.poll(() => liveText(page), { timeout: PATIENCE, interval: 50 }).not.toBe('');
    const early = await liveText(page);
    await page.reload();
    await expect.poll(() => liveText(page), { timeout: 60_000 }).toContain(early);
    expect(await page.getByText(LONG).isVisible()).toBe(true);
    // A minute for the model to come to its end; then what there is has to do.
    const ended = () => page.getByRole('button', { name: 'Send' }).isVisible();
    await expect
      .poll(ended, { timeout: 60_000 })
      .toBe(true)
      .catch(() => stop(page).click());
    await answered(page, 1);
    expect(await page.locator('[data-live]').count()).toBe(0);
    const stored = await page.locator('main').innerText();
    expect(stored).toContain(LONG);
    await page.reload();
    await answered(page, 1);
    expect(await page.getByText(LONG).isVisible()).toBe(true);
  });

  it('stops an answer and keeps what was written', async () => {
    const page = await open();
    await send(page, LONG);
    await expect.poll(() => liveText(page), { timeout: PATIENCE }).not.toBe('');
    const asked = Date.now();
    await stop(page).click();
    await page.getByRole('button', { name: 'Send' }).waitFor({ timeout: 10_000 });
    expect(Date.now() - asked).toBeLessThan(5000);
    await answered(page, 1);
    await page.getByText('Stopped before the end.').waitFor();
    await page.getByRole('button', { name: 'Continue' }).waitFor();
  });

  it('keeps a draft over a reload and over a look at another page', async () => {
    const page = await open();
    await composer(page).fill('half a thou');
    await page.getByRole('link', { name: 'Memory' }).click();
    await page.getByRole('heading', { name: 'Memory' }).waitFor();
    await page.goBack();
    await page.reload();
    expect(await composer(page).inputValue()).toBe('half a thou');
  });

  it('works without a mouse', async () => {
    const page = await open();
    await composer(page).waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('/');
    await page.keyboard.type('slow: Say hello');
    await page.keyboard.press('Enter');
    await cutShort(page, 1, () => page.keyboard.press('Escape'));
    await page.keyboard.press('Alt+KeyK');
    await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe('chat-search');
    await page.keyboard.press('Alt+KeyN');
    await page.getByText('What is on your mind?').waitFor();
  });

  it('fits a phone', async () => {
    const page = await open('#/', {
      viewport: { width: 360, height: 720 },
      isMobile: true,
      hasTouch: true,
    });
    // Enter begins a new line where there is no key for it.
    await composer(page).fill('slow: Say hello');
    await composer(page).press('Enter');
    expect(await composer(page).inputValue()).toBe('slow: Say hello\n');
    await page.getByRole('button', { name: 'Send' }).tap();
    await cutShort(page, 1, () => stop(page).tap());
    const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(await overflow()).toBeLessThanOrEqual(0);
    await page.getByRole('button', { name: 'Open menu' }).click();
    await page
      .getByRole('dialog', { name: 'Chats' })
      .getByRole('link', { name: 'Settings' })
      .click();
    await page.getByRole('heading', { name: 'Settings' }).waitFor();
    expect(await overflow()).toBeLessThanOrEqual(0);
    await page.getByRole('button', { name: 'Open menu' }).tap();
    await page.goBack();
    await expect.poll(() => page.getByRole('dialog').count()).toBe(0);
  });
});
