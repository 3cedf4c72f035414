// Correcting the long-term memory by hand.
import { beforeEach, expect, it } from 'vitest';

import { browserTests, open, url, violations } from '../browser';

browserTests('correcting the memory', () => {
  beforeEach(async () => {
    await fetch(`${url}/test/reset`, { method: 'POST', body: '{}' });
  });

  it('renames an entity', async () => {
    const page = await open('#/memory/12');
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await page.getByRole('textbox', { name: 'Name' }).fill('ada king');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'ada king' }).waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);
  });

  it('adds, changes and deletes an attribute', async () => {
    const page = await open('#/memory/12');
    await page.getByRole('button', { name: 'Add an attribute' }).click();
    await page.getByRole('textbox', { name: 'Attribute' }).fill('hobby');
    await page.getByRole('textbox', { name: 'Value' }).fill('engines');
    expect(await violations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('engines').waitFor();
    await page.getByRole('button', { name: 'Edit attribute city' }).click();
    await page.getByRole('textbox', { name: 'Value' }).fill('Ockham');
    await page.keyboard.press('Enter');
    await page.getByText('Ockham').waitFor();
    await page.getByRole('button', { name: 'Edit attribute language' }).click();
    await page.getByRole('button', { name: 'Delete' }).click();
    await expect.poll(() => page.getByText('English').count()).toBe(0);
  });

  it('merges a double into an entity', async () => {
    const page = await open('#/memory/12');
    await page.getByRole('button', { name: 'Merge…' }).click();
    await page.getByRole('searchbox', { name: 'Search the other entity' }).fill('charles');
    await page.getByRole('radio', { name: 'charles babbage' }).check();
    expect(await page.getByRole('radio', { name: 'ada lovelace' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Merge', exact: true }).click();
    await page.getByRole('link', { name: 'All of the memory' }).click();
    await page.getByRole('link', { name: /ada lovelace/ }).waitFor();
    expect(await page.getByRole('link', { name: /charles babbage/ }).count()).toBe(0);
  });

  it('ends, forgets and brings back a relationship', async () => {
    const page = await open('#/memory/12');
    const menu = page.getByRole('button', {
      name: 'Actions for “ada lovelace works with charles babbage”',
    });
    await menu.click();
    await page.getByRole('menuitem', { name: 'Has ended' }).click();
    await page.getByText('ended', { exact: true }).waitFor();
    await menu.click();
    await page.getByRole('menuitem', { name: 'Forget' }).click();
    await expect.poll(() => menu.count()).toBe(0);
    await page.getByRole('button', { name: 'Undo' }).click();
    await menu.waitFor();
  });

  it('erases by words, after counting', async () => {
    const page = await open('#/memory/erase');
    await page.getByRole('textbox', { name: 'Memories that contain these words' }).fill('tea');
    await page.getByRole('button', { name: 'Count' }).click();
    await page.getByText('2 notes, 1 attribute').waitFor();
    expect(await violations(page)).toEqual([]);
    await page.getByRole('checkbox', { name: 'Erase these chats too' }).check();
    await page.getByRole('button', { name: 'Erase for good' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Erase for good' }).click();
    await page.getByRole('heading', { name: 'Erased', exact: true }).waitFor();
  });

  it('erases by days', async () => {
    const page = await open('#/memory/erase');
    await page.getByRole('radio', { name: 'By days' }).check();
    expect(await page.getByRole('button', { name: 'Count' }).isDisabled()).toBe(true);
    await page.getByLabel('From (the day it happened)').fill('2026-08-01');
    await page.getByLabel('To', { exact: true }).fill('2026-08-31');
    await page.getByRole('button', { name: 'Count' }).click();
    await page.getByText('2 notes, 1 attribute').waitFor();
  });
});
