// Where the tests find their system: DAAPU_URL, or the development brain started here (DAAPU_FAKE).
import { existsSync } from 'node:fs';
import type { TestProject } from 'vitest/node';

import { startFakeBrain } from './fake/brain.mjs';

declare module 'vitest' {
  export interface ProvidedContext {
    url: string;
    /** Path of the browser, or null when this machine has none. */
    chromium: string | null;
  }
}

const KNOWN = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/usr/bin/google-chrome-stable',
  '/snap/bin/chromium',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

function findChromium(): string | null {
  const named = process.env['CHROMIUM_PATH'];
  if (named && !existsSync(named)) throw new Error(`CHROMIUM_PATH names no file: ${named}`);
  return named ?? KNOWN.find((path) => existsSync(path)) ?? null;
}

export default async function setup(project: TestProject) {
  const chromium = findChromium();
  project.provide('chromium', chromium);
  if (!chromium) {
    process.stdout.write('skipped: browser tests (no Chromium found; set CHROMIUM_PATH)\n');
  }
  if (!process.env['DAAPU_FAKE']) {
    const url = process.env['DAAPU_URL'];
    if (!url) throw new Error('Set DAAPU_URL to a running daapu, or use "npm run e2e:fake".');
    project.provide('url', url.replace(/\/$/, ''));
    return undefined;
  }
  const { server, url } = await startFakeBrain();
  project.provide('url', url);
  return () => {
    server.closeAllConnections();
    server.close();
  };
}
