// The Markdown that we read: CommonMark with tables and strike-through, formulas, and no HTML.
import MarkdownIt from 'markdown-it';

import { autolinks } from './autolinks';
import { formulas } from './formulas';

export type References = Record<string, { title: string; href: string }>;

export const parser = new MarkdownIt({
  html: false,
  linkify: false,
  breaks: false,
  typographer: false,
});

parser.use(formulas).use(autolinks);

// Inline styles are forbidden on the page, and the parser aligns columns by them.
parser.core.ruler.push('align_columns', (state) => {
  for (const token of state.tokens) {
    const align = /^text-align:(left|center|right)$/.exec(
      String(token.attrGet('style') ?? ''),
    )?.[1];
    if (align) token.attrs = [['class', `align-${align}`]];
  }
});

// The page has headings of its own above an answer, so those of the answer begin two levels lower.
parser.core.ruler.push('lower_headings', (state) => {
  for (const token of state.tokens) {
    const level = /^h([1-6])$/.exec(token.tag)?.[1];
    if (level) token.tag = `h${Math.min(6, Number(level) + 2)}`;
  }
});
