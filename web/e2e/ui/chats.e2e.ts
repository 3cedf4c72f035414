// The list of chats, personas, pictures, signing in.
import { readFile } from 'node:fs/promises';
import type { Locator } from 'playwright-core';
import { beforeEach, expect, it } from 'vitest';

import { answered, browserTests, composer, open, send, stop, url, violations } from '../browser';

const reset = (body: object = {}) =>
  fetch(`${url}/test/reset`, { method: 'POST', body: JSON.stringify(body) });
const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);

browserTests('around the conversation', () => {
  beforeEach(async () => {
    await reset();
  });

  it('reads further pages of the list as they come into view', async () => {
    await reset({ chats: 430 });
    const page = await open();
    const rows = page.getByRole('region', { name: 'Chats' }).getByRole('listitem');
    await expect.poll(() => rows.count()).toBe(200);
    await expect
      .poll(async () => {
        await rows.last().scrollIntoViewIfNeeded();
        return rows.count();
      })
      .toBe(430);
  });

  it('renames, pins and deletes from the keyboard', async () => {
    await reset({ chats: 2 });
    const page = await open();
    await page.getByRole('button', { name: 'Actions for “Chat 1”' }).focus();
    await page.keyboard.press('Enter');
    await page.keyboard.press('Enter');
    await page.getByRole('textbox', { name: 'Title' }).fill('Tides');
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'Tides' }).waitFor();
    await page.getByRole('button', { name: 'Actions for “Tides”' }).focus();
    await page.keyboard.press('Enter');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Pinned' }).waitFor();
    await page.getByRole('button', { name: 'Actions for “Tides”' }).click();
    await page.getByRole('menuitem', { name: 'Delete…' }).click();
    await page.getByRole('button', { name: 'Delete and remember' }).click();
    await expect.poll(() => page.getByRole('link', { name: 'Tides' }).count()).toBe(0);
  });

  it('names a new chat, finds it by its words, and forks it', async () => {
    const page = await open();
    await send(page, 'Where do swallows winter?');
    await answered(page, 1);
    await page.getByRole('link', { name: 'A generated title' }).waitFor();
    await page.getByRole('searchbox', { name: 'Search chats' }).fill('swallows');
    await page.locator('mark').first().waitFor();
    expect(await page.locator('mark').first().innerText()).toBe('swallows');
    await page.locator('mark').first().click();
    await page.getByRole('button', { name: 'Fork from here' }).click();
    await page.getByRole('heading', { level: 1, name: 'A generated title (2)' }).waitFor();
    await answered(page, 1);
  });

  it('exports a chat and imports it again', async () => {
    const page = await open();
    await send(page, 'hello');
    await answered(page, 1);
    await page.getByRole('link', { name: 'A generated title' }).hover();
    await page.getByRole('button', { name: /Actions for/ }).click();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('menuitem', { name: 'Export' }).click(),
    ]);
    const file = JSON.parse(await readFile(await download.path(), 'utf8')) as { title: string };
    const [chooser] = await Promise.all([
      page.waitForEvent('filechooser'),
      page.getByRole('button', { name: 'Import a chat' }).click(),
    ]);
    const buffer = Buffer.from(JSON.stringify({ ...file, title: 'Imported' }));
    await chooser.setFiles({ name: 'chat.json', mimeType: 'application/json', buffer });
    await page.getByRole('heading', { level: 1, name: 'Imported' }).waitFor();
    await answered(page, 1);
  });

  it('puts a chat into the archive and takes it out again', async () => {
    await reset({ chats: 2 });
    const page = await open();
    await page.getByRole('link', { name: 'Chat 1' }).hover();
    await page.getByRole('button', { name: 'Actions for “Chat 1”' }).click();
    await page.getByRole('menuitem', { name: 'Archive' }).click();
    await expect.poll(() => page.getByRole('link', { name: 'Chat 1' }).count()).toBe(0);
    await page.getByRole('link', { name: 'Archived chats' }).click();
    await page.getByRole('main').getByRole('link', { name: 'Chat 1' }).waitFor();
    expect(await violations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Back to the list' }).click();
    await page.getByText('Nothing is archived.').waitFor();
    await page.getByRole('region', { name: 'Chats' }).getByText('Chat 1').waitFor();
  });

  it('says on a phone, too, that a chat was archived, and undoes it', async () => {
    await reset({ chats: 1 });
    const page = await open('#/', { viewport: { width: 360, height: 720 } });
    await page.getByRole('button', { name: 'Open menu' }).click();
    const drawer = page.getByRole('dialog', { name: 'Chats' });
    await drawer.getByRole('button', { name: 'Actions for “Chat 1”' }).click();
    await page.getByRole('menuitem', { name: 'Archive' }).click();
    await expect.poll(() => drawer.getByRole('link', { name: 'Chat 1' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Undo' }).click();
    await drawer.getByRole('link', { name: 'Chat 1' }).waitFor();
  });

  it('refuses a file that is no export with words that say so', async () => {
    const page = await open();
    const [chooser] = await Promise.all([
      page.waitForEvent('filechooser'),
      page.getByRole('button', { name: 'Import a chat' }).click(),
    ]);
    const buffer = Buffer.from('no JSON at all');
    await chooser.setFiles({ name: 'notes.json', mimeType: 'application/json', buffer });
    await page.getByText('This is not a file that daapu has written.').waitFor();
  });

  it('runs nothing and loads nothing of what titles and messages contain', async () => {
    const evil = '<img src="/evil.png" onerror="window.evil = 1"><script>window.evil = 1</script>';
    const link = '[click](javascript:window.evil=1) <a href="javascript:window.evil=1">here</a>';
    const parts = [{ type: 'text', text: `${evil} ${link}` }];
    const answer = {
      role: 'assistant',
      parts,
      meta: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
      finishReason: 'stop',
    };
    const asked = { role: 'user', parts, createdAt: '2026-03-01T08:00:00Z' };
    await fetch(`${url}/api/chats/import`, {
      method: 'POST',
      body: JSON.stringify({ title: evil, messages: [asked, answer] }),
    });
    const page = await open();
    const loaded: string[] = [];
    page.on('request', (request) => loaded.push(request.url()));
    await page.getByRole('link', { name: 'onerror' }).click();
    await answered(page, 1);
    expect(await page.evaluate(() => 'evil' in window)).toBe(false);
    expect(loaded.filter((address) => address.includes('evil'))).toEqual([]);
    expect(await page.locator('main a[href^="javascript"]').count()).toBe(0);
    expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe(evil);
  });

  it('sets text of either direction as it is read', async () => {
    const page = await open();
    await composer(page).fill('שלום עולם');
    const direction = (locator: Locator) =>
      locator.evaluate((element) => getComputedStyle(element).direction);
    expect(await direction(composer(page))).toBe('rtl');
    await composer(page).press('Enter');
    await answered(page, 1);
    expect(await direction(page.getByText('שלום עולם', { exact: true }).last())).toBe('rtl');
    expect(await direction(page.getByText('The tide comes'))).toBe('ltr');
  });

  it('says that a chat is gone instead of offering a new one under its address', async () => {
    const page = await open('#/chat/1-999');
    await page.getByRole('alert').getByText('This chat does not exist any more.').waitFor();
  });

  it('ends a search with Escape, not the answer', async () => {
    const page = await open();
    await send(page, 'slow');
    await page.getByText('word2').waitFor();
    await page.getByRole('searchbox', { name: 'Search chats' }).fill('x');
    await page.keyboard.press('Escape');
    await page.getByText('word9').waitFor();
    expect(await stop(page).isVisible()).toBe(true);
    await composer(page).press('Escape');
    await answered(page, 1);
  });

  it('sends a picture', async () => {
    const page = await open();
    await page.getByRole('combobox', { name: 'Model' }).selectOption({ label: 'acme/large-1' });
    const [chooser] = await Promise.all([
      page.waitForEvent('filechooser'),
      page.getByRole('button', { name: 'Add a picture' }).click(),
    ]);
    await chooser.setFiles({ name: 'dot.png', mimeType: 'image/png', buffer: PIXEL });
    await page.getByRole('button', { name: 'Remove picture 1' }).waitFor();
    await send(page, 'What is this?');
    await answered(page, 1);
    const source = await page.getByRole('img', { name: 'Picture 1' }).getAttribute('src');
    expect(source).toBe(`data:image/png;base64,${PIXEL.toString('base64')}`);
  });

  it('remembers the model and the persona of each chat', async () => {
    const page = await open('#/personas');
    await page.getByRole('button', { name: 'New persona' }).click();
    await page.getByRole('textbox', { name: 'Name' }).fill('Sailor');
    await page.getByRole('textbox', { name: 'System prompt' }).fill('You know the sea.');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'Sailor' }).waitFor();
    await page.getByRole('link', { name: 'New chat' }).click();
    await page.getByRole('combobox', { name: 'Persona' }).selectOption({ label: 'Sailor' });
    await page.getByRole('combobox', { name: 'Model' }).selectOption({ label: 'acme/large-1' });
    await send(page, 'hello');
    await answered(page, 1);
    await page.reload();
    await answered(page, 1);
    const chosen = (name: string) =>
      page.getByRole('combobox', { name }).locator('option:checked').innerText();
    expect(await chosen('Persona')).toBe('Sailor');
    expect(await chosen('Model')).toBe('acme/large-1');
  });

  it('says plainly that a model is a demonstration', async () => {
    const page = await open();
    await page.getByText('You are talking to a demonstration model.').waitFor();
    await page.getByRole('button', { name: 'Use a real model' }).click();
    await page.getByRole('dialog').getByText('llama.cpp').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('combobox', { name: 'Model' }).selectOption({ label: 'acme/large-1' });
    await expect.poll(() => page.getByText('demonstration model').count()).toBe(0);
  });

  it('asks for the token, and goes on where it was', async () => {
    await reset({ token: 'open-sesame' });
    const page = await open('#/settings');
    await page.getByLabel('Token').fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('This is not the token.').waitFor();
    await page.getByLabel('Token').fill('open-sesame');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Settings' }).waitFor();
    await page.getByText('local/smol-demo').waitFor();
  });

  it('keeps the chosen theme over a reload, without a script in the page', async () => {
    const page = await open('#/settings', { colorScheme: 'light' });
    await page.getByText('Dark', { exact: true }).click();
    const theme = () => page.evaluate(() => document.documentElement.dataset['theme']);
    expect(await theme()).toBe('dark');
    await page.reload();
    expect(await theme()).toBe('dark');
  });

  it('says what to do when a part of the page is missing', async () => {
    const page = await open();
    await composer(page).waitFor();
    await page.route('**/assets/Tools-*', (route) => route.abort());
    await page.getByRole('link', { name: 'Tools' }).click();
    await page.getByRole('alert').getByText('Something on this page went wrong.').waitFor();
    await page.evaluate(() => {
      const reason = new Error('a dialog is missing');
      const init = { promise: Promise.resolve(), reason };
      dispatchEvent(new PromiseRejectionEvent('unhandledrejection', init));
    });
    await page.getByText('(a dialog is missing)').waitFor();
  });

  it('says what is wrong when the server is gone', async () => {
    const page = await open();
    await composer(page).waitFor();
    await page.context().setOffline(true);
    await send(page, 'hello');
    await page.getByRole('alert').first().waitFor();
    expect(await composer(page).inputValue()).toBe('hello');
  });
});
