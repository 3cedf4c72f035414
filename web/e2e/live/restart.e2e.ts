// Everything is still there after all processes were restarted. The harness that restarts them runs this file twice:
// DAAPU_E2E_PHASE=before, then DAAPU_E2E_PHASE=after, with the same DAAPU_E2E_STATE file. Without a phase the first
// half alone is run.
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';

import { answered, browserTests, cutShort, open, send, stop } from '../browser';

const phase = process.env['DAAPU_E2E_PHASE'] ?? 'before';
const file = process.env['DAAPU_E2E_STATE'] ?? join(tmpdir(), 'daapu-e2e-state.json');

interface State {
  hash: string;
  text: string;
  title: string;
}

const title = (page: Awaited<ReturnType<typeof open>>) =>
  page.getByRole('heading', { level: 1 }).innerText();

browserTests('a restart', () => {
  it.runIf(phase === 'before')('before: a conversation is stored', async () => {
    const page = await open();
    await send(page, 'Remember the word heliotrope.');
    await cutShort(page, 1, () => stop(page).click());
    await page.reload();
    await answered(page, 1);
    const text = await page.getByRole('region', { name: 'Conversation' }).innerText();
    const hash = await page.evaluate(() => location.hash);
    await writeFile(file, JSON.stringify({ hash, text, title: await title(page) }));
  });

  it.runIf(phase === 'after')('after: the conversation is there, and goes on', async () => {
    const state = JSON.parse(await readFile(file, 'utf8')) as State;
    const page = await open(state.hash);
    await answered(page, 1);
    expect(await page.getByRole('region', { name: 'Conversation' }).innerText()).toBe(state.text);
    expect(await title(page)).toBe(state.title);
    await send(page, 'Which word?');
    await cutShort(page, 2, () => stop(page).click());
  });
});
