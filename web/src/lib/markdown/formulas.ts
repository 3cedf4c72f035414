// Formulas between $…$, $$…$$, \(…\) and \[…\]. They become plain elements that hold their source; the formula
// renderer is heavy and comes later, if at all.
import type { MarkdownIt } from 'markdown-it';

type InlineRule = Parameters<MarkdownIt['inline']['ruler']['before']>[2];
type BlockRule = Parameters<MarkdownIt['block']['ruler']['before']>[2];

const inline: InlineRule = (state, silent) => {
  const found = inlineFormula(state.src, state.pos, state.posMax);
  if (!found) return false;
  if (!silent) {
    const token = state.push('formula_inline', 'span', 0);
    token.content = found.content;
  }
  state.pos = found.end;
  return true;
};

/** `$` follows the rule of pandoc: no space inside the marks, no digit after the closing one. */
function inlineFormula(src: string, start: number, max: number) {
  const rest = src.slice(start, max);
  const match =
    /^\\\((.{1,2000}?)\\\)/s.exec(rest) ??
    /^\$(?!\$)(?! )((?:\\.|[^$\\])*?[^\s\\])\$(?!\d)/s.exec(rest);
  if (!match?.[1]) return null;
  return { content: match[1].trim(), end: start + match[0].length };
}

const MARKS: readonly (readonly [string, string])[] = [
  ['$$', '$$'],
  ['\\[', '\\]'],
];

const block: BlockRule = (state, startLine, endLine, silent) => {
  if ((state.sCount[startLine] ?? 0) - state.blkIndent >= 4) return false;
  const first = lineAt(state, startLine);
  const marks = MARKS.find(([open]) => first.startsWith(open));
  if (!marks) return false;
  const [open, close] = marks;
  const found = blockFormula(state, startLine, endLine, open, close);
  if (!found) return false;
  if (silent) return true;
  const token = state.push('formula_block', 'div', 0);
  token.block = true;
  token.content = found.content;
  token.map = [startLine, found.next];
  state.line = found.next;
  return true;
};

type BlockState = Parameters<BlockRule>[0];

function lineAt(state: BlockState, line: number): string {
  const from = (state.bMarks[line] ?? 0) + (state.tShift[line] ?? 0);
  return state.src.slice(from, state.eMarks[line]).trimEnd();
}

/** A formula runs to its closing mark, never over a blank line or out of its list item. */
function blockFormula(state: BlockState, start: number, end: number, open: string, close: string) {
  const lines: string[] = [];
  for (let line = start; line < end; line++) {
    const text = line === start ? lineAt(state, line).slice(open.length) : lineAt(state, line);
    const outside = (state.sCount[line] ?? 0) < state.blkIndent;
    if (line > start && (text === '' || outside)) return null;
    const at = text.indexOf(close);
    lines.push(at < 0 ? text : text.slice(0, at));
    if (at < 0) continue;
    // Text after the mark: it was a formula within a paragraph.
    if (text.slice(at + close.length).trim() !== '') return null;
    return { content: lines.join('\n').trim(), next: line + 1 };
  }
  return null;
}

/**
 * Where a formula may have begun that is not closed yet: the offset of its line in `text` (complete lines), or the
 * end. What follows it cannot be judged before its closing mark or a blank line has come.
 */
export function undecidedFrom(text: string): number {
  let offset = text.length;
  const open: { text: string; offset: number }[] = [];
  for (const line of text.split('\n').slice(0, -1).reverse()) {
    offset -= line.length + 1;
    if (line.trim() === '') break;
    open.unshift({ text: line.trim(), offset });
  }
  for (let n = 0; n < open.length; n++) {
    const first = open[n] as { text: string; offset: number };
    const marks = MARKS.find(([mark]) => first.text.startsWith(mark));
    if (!marks) continue;
    const [mark, close] = marks;
    const rest = open
      .slice(n)
      .map((line, k) => (k === 0 ? line.text.slice(mark.length) : line.text));
    const closing = rest.findIndex((line) => line.includes(close));
    if (closing < 0) return first.offset;
    if (rest[closing]?.trimEnd().endsWith(close)) n += closing;
  }
  return text.length;
}

export function formulas(md: MarkdownIt): void {
  md.inline.ruler.before('escape', 'formula_inline', inline);
  md.block.ruler.before('fence', 'formula_block', block, {
    alt: ['paragraph', 'reference', 'blockquote', 'list'],
  });
}
