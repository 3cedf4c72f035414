// One block of Markdown to clean HTML.
import { t } from '../i18n';
import type { Heavy } from './heavy';
import { parser, type References } from './parser';
import { sanitise } from './sanitise';

export { BlockSplitter, type Block } from './blocks';
export type { References } from './parser';

const { escapeHtml } = parser.utils;

function heavyOf(env: Record<string, unknown> | undefined): Heavy | null {
  return (env?.['heavy'] as Heavy | null | undefined) ?? null;
}

parser.renderer.rules['fence'] = (tokens, index, _options, env) => {
  const token = tokens[index];
  return code(token?.content ?? '', token?.info.trim().split(/\s+/)[0] ?? '', heavyOf(env));
};

parser.renderer.rules['code_block'] = (tokens, index) =>
  code(tokens[index]?.content ?? '', '', null);

// Pictures from elsewhere are never loaded; what is left is a link that a person may follow.
parser.renderer.rules['image'] = (tokens, index) => {
  const token = tokens[index];
  const src = String(token?.attrGet('src') ?? '');
  const alt = escapeHtml(token?.content ?? '');
  if (src.startsWith('data:')) return `<img src="${escapeHtml(src)}" alt="${alt}">`;
  return `<a href="${escapeHtml(src)}">${alt || escapeHtml(src)}</a>`;
};

parser.renderer.rules['formula_inline'] = (tokens, index, _options, env) =>
  formula(tokens[index]?.content ?? '', false, heavyOf(env));

parser.renderer.rules['formula_block'] = (tokens, index, _options, env) =>
  formula(tokens[index]?.content ?? '', true, heavyOf(env));

function code(source: string, language: string, heavy: Heavy | null): string {
  const body = heavy?.highlight(source, language) ?? escapeHtml(source);
  const button = `<button type="button" data-copy="code">${escapeHtml(t.app.copy)}</button>`;
  const head = `<div class="code-head"><span>${escapeHtml(language)}</span>${button}</div>`;
  return `<div class="code-block" dir="ltr">${head}<pre tabindex="0"><code>${body}</code></pre></div>\n`;
}

function formula(source: string, block: boolean, heavy: Heavy | null): string {
  const rendered = heavy?.formula(source, block);
  if (rendered) return block ? `<div>${rendered}</div>` : rendered;
  return block ? `<p><code>${escapeHtml(source)}</code></p>` : `<code>${escapeHtml(source)}</code>`;
}

/** Clean HTML of a block; `heavy` colours code and sets formulas, null leaves both plain. */
export function render(source: string, references: References, heavy: Heavy | null): string {
  const env = { references: { ...references }, heavy };
  return sanitise(parser.render(source, env));
}
