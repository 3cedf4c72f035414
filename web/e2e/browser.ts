// One browser for a file of tests, a fresh profile for each test, and what a page is asked again and again.
import { AxeBuilder } from '@axe-core/playwright';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, inject, onTestFailed } from 'vitest';

export const url = inject('url');
const executablePath = inject('chromium');
// A small model on a busy machine takes its time.
export const PATIENCE = Number(process.env['DAAPU_E2E_TIMEOUT'] ?? 300_000);

let browser: Browser | undefined;
let problems: string[] = [];

/** Tests in a browser; skipped, by name, where there is none. */
export function browserTests(name: string, tests: () => void): void {
  const title = executablePath ? name : `${name} (no Chromium: set CHROMIUM_PATH)`;
  describe.skipIf(!executablePath)(title, () => {
    beforeAll(async () => {
      if (!executablePath) return;
      browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
    });
    afterEach(async () => {
      await Promise.all(browser?.contexts().map((context) => context.close()) ?? []);
      // A page that reports an error of its own fails the test, whatever it looked like.
      expect(problems.splice(0)).toEqual([]);
    });
    afterAll(() => browser?.close());
    tests();
  });
}

export async function open(hash = '#/', options: BrowserContextOptions = {}): Promise<Page> {
  if (!browser) throw new Error('There is no browser.');
  const context = await browser.newContext({ viewport: { width: 1200, height: 820 }, ...options });
  // A title costs the model another run, which a small one on a busy machine has no time for.
  if (!process.env['DAAPU_FAKE']) {
    await context.addInitScript(() => localStorage.setItem('daapu.autoTitle', 'off'));
  }
  const page = await context.newPage();
  problems = [];
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('console', (message) => {
    if (message.text().includes('Content Security Policy')) problems.push(message.text());
  });
  onTestFailed(async () => {
    const folder = process.env['DAAPU_E2E_SCREENSHOTS'];
    if (folder && !page.isClosed()) await page.screenshot({ path: `${folder}/${Date.now()}.png` });
  });
  await page.goto(`${url}/${hash}`);
  return page;
}

export const composer = (page: Page) => page.getByRole('textbox', { name: 'Message', exact: true });

export async function send(page: Page, text: string): Promise<void> {
  await composer(page).fill(text);
  await composer(page).press('Enter');
}

export const stop = (page: Page) => page.getByRole('button', { name: 'Stop', exact: true });
const answers = (page: Page) => page.getByRole('button', { name: 'Copy answer' });

/** Wait until no answer is running and `count` answers are stored on the page. */
export async function answered(page: Page, count: number): Promise<void> {
  await answers(page)
    .nth(count - 1)
    .waitFor({ timeout: PATIENCE });
  await page.getByRole('button', { name: 'Send' }).waitFor();
}

/** What has arrived of the running answer. */
export async function liveText(page: Page): Promise<string> {
  return (await page.locator('[data-live] .markdown').allTextContents()).join('').trim();
}

/** Wait for the beginning of the `count`th answer, then end it: a small model may talk for minutes. */
export async function cutShort(page: Page, count: number, end: () => Promise<void>): Promise<void> {
  const done = async () =>
    (await answers(page).count()) >= count && !(await stop(page).isVisible());
  await expect
    .poll(async () => (await liveText(page)) !== '' || (await done()), { timeout: PATIENCE })
    .toBe(true);
  if (await stop(page).isVisible()) await end();
  await answered(page, count);
}

/** Rules of WCAG 2.2 AA and good practice; the answer names what is broken and where. */
export async function violations(page: Page): Promise<string[]> {
  const { violations: found } = await new AxeBuilder({ page }).analyze();
  return found.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.html}`));
}
