// Fails when what the first screen needs is heavier than the budget: the page, the entry script with all that it
// imports at once, their styles, and the Markdown renderer, which is loaded as soon as a conversation is shown.
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const BUDGET = 100_000;
const root = new URL('../dist/', import.meta.url);
const manifest = JSON.parse(readFileSync(new URL('.vite/manifest.json', root), 'utf8'));
const wanted = new Set(['index.html', 'theme.js']);

function collect(key) {
  const chunk = manifest[key];
  if (wanted.has(chunk.file)) return;
  wanted.add(chunk.file);
  for (const style of chunk.css ?? []) wanted.add(style);
  for (const next of chunk.imports ?? []) collect(next);
}

for (const [key, chunk] of Object.entries(manifest)) {
  if (chunk.isEntry || key.endsWith('markdown/render.ts')) collect(key);
}

let total = 0;
for (const file of wanted) {
  const size = gzipSync(readFileSync(new URL(file, root)), { level: 9 }).length;
  total += size;
  process.stdout.write(`${String(size).padStart(8)}  ${file}\n`);
}
process.stdout.write(`${String(total).padStart(8)}  first screen, gzip (budget ${BUDGET})\n`);
if (total >= BUDGET) {
  process.stderr.write('The first screen is over its budget.\n');
  process.exit(1);
}
