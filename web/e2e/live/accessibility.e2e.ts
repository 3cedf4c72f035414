// The rules of axe on every page, light and dark, wide and narrow.
import { expect, it } from 'vitest';

import { browserTests, cutShort, open, send, stop, violations } from '../browser';

const pages = [
  ['#/', 'New chat'],
  ['#/personas', 'Personas'],
  ['#/memory', 'Memory'],
  ['#/memory/jobs', 'Memory'],
  ['#/memory/transfer', 'Memory'],
  ['#/memory/erase', 'Memory'],
  ['#/archive', 'Archived chats'],
  ['#/tools', 'Tools'],
  ['#/maintenance', 'Maintenance'],
  ['#/settings', 'Settings'],
] as const;

browserTests('accessibility', () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    it.each(pages)(`%s breaks no rule (${colorScheme})`, async (hash, heading) => {
      const page = await open(hash, { colorScheme });
      await page.getByRole('heading', { name: heading, level: 1 }).waitFor();
      await page.waitForLoadState('networkidle');
      expect(await violations(page)).toEqual([]);
    });

    it(`a conversation breaks no rule (${colorScheme})`, async () => {
      const page = await open('#/', { colorScheme });
      await send(page, 'Say hello');
      await cutShort(page, 1, () => stop(page).click());
      expect(await violations(page)).toEqual([]);
    });
  }

  it('the drawer of a phone breaks no rule', async () => {
    const page = await open('#/', { viewport: { width: 360, height: 720 } });
    await page.getByRole('button', { name: 'Open menu' }).click();
    await page.getByRole('dialog').waitFor();
    expect(await violations(page)).toEqual([]);
  });
});
