// Plain web addresses in the text become links.
import type { MarkdownIt } from 'markdown-it';

type InlineRule = Parameters<MarkdownIt['inline']['ruler']['before']>[2];

const ADDRESS = /^:\/\/[^\s<>"'`\\^{|}]+/;
// What follows an address more often than it belongs to it.
const TRAILING = /[.,:;!?*_~]+$/;

const rule: InlineRule = (state, silent) => {
  if (state.linkLevel > 0) return false;
  const scheme = /(?:^|[^\p{L}\p{N}])(https?)$/u.exec(state.pending)?.[1];
  const found = scheme && ADDRESS.exec(state.src.slice(state.pos, state.posMax))?.[0];
  if (!scheme || !found) return false;
  const rest = withoutTail(found);
  const href = state.md.normalizeLink(scheme + rest);
  if (rest.length <= 3 || !state.md.validateLink(href)) return false;
  if (!silent) {
    state.pending = state.pending.slice(0, -scheme.length);
    state.push('link_open', 'a', 1).attrs = [['href', href]];
    state.push('text', '', 0).content = state.md.normalizeLinkText(scheme + rest);
    state.push('link_close', 'a', -1);
  }
  state.pos += rest.length;
  return true;
};

/** Punctuation at the end, and a closing bracket that was not opened within, belong to the sentence. */
function withoutTail(address: string): string {
  let rest = address.replace(TRAILING, '');
  while (rest.endsWith(')') && rest.split(')').length > rest.split('(').length) {
    rest = rest.slice(0, -1).replace(TRAILING, '');
  }
  return rest;
}

export function autolinks(md: MarkdownIt): void {
  md.inline.ruler.after('text', 'autolink_plain', rule);
}
