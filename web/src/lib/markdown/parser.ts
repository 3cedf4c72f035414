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
